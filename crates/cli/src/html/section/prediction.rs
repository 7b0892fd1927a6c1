//! What replay had predicted beside what was measured: a proof, and how good predictions have been.

use haltwise_document::{Document, html};

use crate::html::content::Content;
use crate::html::markup::Markup;
use crate::ledger::page::accuracy;
use crate::prove::page;

/// The section. `None` without proof and ledger.
pub(super) fn prediction(content: &Content) -> Option<Markup> {
    let proof = content.proof.as_ref();
    let mut document = proof.map(|proof| page::document(proof, usize::MAX));
    let ledger = content.ledger.as_ref();
    let ledger = ledger.filter(|it| it.predictions + it.inconclusive.predictions > 0);
    if let Some(summary) = ledger {
        let document = document.get_or_insert_with(Document::new);
        document.heading("The ledger");
        accuracy(document, summary);
    }
    document.map(|document| html::render(&document))
}
