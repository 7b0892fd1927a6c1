//! How far the page can be trusted: source, losses, what cannot be seen, what was assumed, what recording
//! cost, and who made it. Always there, in the same place.

use haltwise_document::{Document, Untrusted, html, prose};

use super::sampled;
use crate::html::content::Content;
use crate::html::markup::Markup;
use crate::recommend::basis::rests;
use crate::report::quality::recorded;

/// Lines of one kind that are shown.
const MOST: usize = 20;

pub(super) fn quality(content: &Content) -> Markup {
    let mut document = Document::new();
    document.prose(
        "What could not be observed is shown as unknown, never as zero. An interval holds the true value in 95 of \
         100 such recordings.",
    );
    document.append(recorded(&content.report, MOST));
    let halts = sampled(content);
    let none = || "histograms; the capture has no single halts".to_owned();
    document.fact("in this file", halts.unwrap_or_else(none));
    let made = format!("haltwise {}, from the capture ", env!("CARGO_PKG_VERSION"));
    let made = prose![made, Untrusted::from(&content.dir)];
    document.fact("made by", made);
    // The basis of the recommendation and of the what-if, as `tune` states it.
    if let Some(advice) = content.advice() {
        document.heading("Basis of the recommendation");
        for (what, text) in rests(advice) {
            document.fact(what, text);
        }
    }
    html::render(&document)
}
