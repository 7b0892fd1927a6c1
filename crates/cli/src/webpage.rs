//! A page as one file: a head with a strict policy, our style, the sections, the data, our script.
//!
//! The policy names style and script by their hashes and allows nothing else: no network, no frame, no
//! form, no style or handler in an attribute. Whatever slipped through the gate of [`markup`](haltwise_document::html::markup)
//! would still not run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use haltwise_document::html::markup::{Markup, el};

const STYLE: &str = concat!(
    include_str!("html/page/page.css"),
    include_str!("html/page/charts.css")
);

/// The page's script, module by module: each after those that it imports.
const MODULES: [&str; 11] = [
    include_str!("html/page/number.js"),
    include_str!("html/page/bytes.js"),
    include_str!("html/page/dom.js"),
    include_str!("html/page/sample.js"),
    include_str!("html/page/front.js"),
    include_str!("html/page/vmtable.js"),
    include_str!("html/page/whatif.js"),
    include_str!("html/page/timeline.js"),
    include_str!("html/page/tables.js"),
    include_str!("html/page/flame.js"),
    include_str!("html/page/main.js"),
];

/// A page that stands still: no script, no data.
pub(crate) fn still(title: &str, body: Markup) -> String {
    file(title, Markup::ours(STYLE), None, body)
}

/// Puts the file together. `data` is what the script works on.
pub(crate) fn document(title: &str, body: Markup, data: &Markup) -> String {
    let script = Markup::modules(&MODULES);
    let data = el("script")
        .attr("type", "application/json")
        .attr("id", "data")
        .with(data.clone());
    let module = el("script").attr("type", "module").with(script.clone());
    let body = body.and(data).and(module);
    file(title, Markup::ours(STYLE), Some(&script), body)
}

const HEAD: &str = concat!(
    r#"<meta name="viewport" content="width=device-width, initial-scale=1">"#,
    r#"<meta name="color-scheme" content="light dark">"#,
    r#"<meta name="generator" content="haltwise "#,
    env!("CARGO_PKG_VERSION"),
    r#""><link rel="icon" href="data:,">"#,
);

fn file(title: &str, style: Markup, script: Option<&Markup>, body: Markup) -> String {
    let script = script.map_or_else(String::new, |it| format!(" script-src '{}';", hash(it)));
    let policy = format!(
        "default-src 'none'; style-src '{}';{script} img-src data:; base-uri 'none'; form-action 'none'",
        hash(&style)
    );
    let policy = el("meta")
        .attr("http-equiv", "Content-Security-Policy")
        .attr("content", policy);
    let head = el("head")
        .with(el("meta").attr("charset", "utf-8"))
        .with(policy)
        .with(Markup::ours(HEAD))
        .with(el("title").with(title))
        .with(el("style").with(style));
    let html = el("html").attr("lang", "en");
    let html = html.with(head).with(el("body").with(body));
    format!("<!DOCTYPE html>\n{}\n", Markup::from(html).as_str())
}

fn hash(of: &Markup) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(of.as_str())))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_policy_allows_this_script_and_this_style_alone() {
        let html = document("<x>", el("p").with("y").into(), &Markup::none());
        let policy = html.split("content=\"default-src").nth(1).unwrap();
        let policy = policy.split("\">").next().unwrap();
        for (before, after) in [
            ("<style>", "</style>"),
            ("<script type=\"module\">", "</script>"),
        ] {
            let text = html.split(before).nth(1).unwrap();
            let text = text.split(after).next().unwrap();
            let hash = STANDARD.encode(Sha256::digest(text));
            assert!(policy.contains(&format!("sha256-{hash}")), "{policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'));
        assert!(html.contains("<title>&lt;x&gt;</title>"));
    }
}
