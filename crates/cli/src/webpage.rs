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
    let style = Markup::ours(STYLE);
    let policy = format!(
        "default-src 'none'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(&style)
    );
    file(title, policy, style, body)
}

/// Puts the file together. `data` is what the script works on.
pub(crate) fn document(title: &str, body: Markup, data: &Markup) -> String {
    let (style, script) = (Markup::ours(STYLE), Markup::modules(&MODULES));
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; \
         form-action 'none'",
        hash(&style),
        hash(&script)
    );
    let data = el("script")
        .attr("type", "application/json")
        .attr("id", "data")
        .with(data.clone());
    let script = el("script").attr("type", "module").with(script);
    file(title, policy, style, body.and(data).and(script))
}

fn file(title: &str, policy: String, style: Markup, body: Markup) -> String {
    let head = Markup::none()
        .and(el("meta").attr("charset", "utf-8"))
        .and(
            el("meta")
                .attr("http-equiv", "Content-Security-Policy")
                .attr("content", policy),
        )
        .and(
            el("meta")
                .attr("name", "viewport")
                .attr("content", "width=device-width, initial-scale=1"),
        )
        .and(
            el("meta")
                .attr("name", "color-scheme")
                .attr("content", "light dark"),
        )
        .and(
            el("meta")
                .attr("name", "generator")
                .attr("content", concat!("haltwise ", env!("CARGO_PKG_VERSION"))),
        )
        .and(el("link").attr("rel", "icon").attr("href", "data:,"))
        .and(el("title").with(title))
        .and(el("style").with(style));
    let html = el("html")
        .attr("lang", "en")
        .with(el("head").with(head))
        .with(el("body").with(body));
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

    /// A hash is known from elsewhere: FIPS 180-2, appendix B.1.
    #[test]
    fn a_hash_as_published() {
        let abc = hash(&Markup::ours("abc"));
        assert_eq!(abc, "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    }
}
