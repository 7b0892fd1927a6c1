//! This capture against another.

use haltwise_document::html;

use crate::diff::page;
use crate::html::content::Content;
use crate::html::markup::Markup;

const MOST: usize = 200;

/// The section. `None` if nothing was to be compared.
pub(super) fn diff(content: &Content) -> Option<Markup> {
    let compared = content.diff.as_ref()?;
    Some(html::render(&page::document(compared, MOST, true)))
}
