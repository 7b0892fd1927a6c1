//! What stands out and can be put right: `explain`'s findings, and what could not be judged.

use haltwise_document::html;

use crate::explain::page;
use crate::html::content::Content;
use crate::html::markup::Markup;

/// The section: rules that found something, as many as there are.
pub(super) fn findings(content: &Content) -> Markup {
    let mut document = page::findings(&content.findings, usize::MAX);
    page::not_judged(&mut document, &content.findings);
    html::render(&document)
}
