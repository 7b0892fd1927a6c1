//! Rendering of untrusted text.

use super::*;

const HOSTILE: [&str; 8] = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\" onmouseover=\"alert(1)",
    "' onfocus='alert(1)",
    "&lt;b&gt;",
    "a\u{202e}gpj.exe",
    "\u{0}\u{1b}[2J\n\r",
    "<!--",
];

#[test]
fn no_text_opens_a_tag_or_leaves_its_attribute() {
    for text in HOSTILE {
        let made: Markup = el("p").attr("title", text).with(text).into();
        let made = made.as_str();
        let inside = made
            .strip_prefix("<p title=\"")
            .and_then(|rest| rest.strip_suffix("</p>"))
            .unwrap();
        let (title, content) = inside.split_once("\">").unwrap();
        for part in [title, content] {
            assert!(!part.contains(['<', '>', '"', '\'']), "{made}");
            assert!(!part.contains(['\u{202e}', '\u{1b}', '\n']), "{made}");
        }
    }
}

#[test]
fn an_option_stays_whole_and_reads_as_it_was() {
    let made = prose("see `haltwise tune cap --ceiling-only --vm web-1`, or `report`");
    assert_eq!(
        made.as_str(),
        "see <code>haltwise tune cap <span class=\"whole\">--ceiling-only</span> \
         <span class=\"whole\">--vm</span> web-1</code>, or <code>report</code>"
    );
}

#[test]
fn data_cannot_end_its_element_and_stays_what_it_was() {
    for text in HOSTILE.into_iter().chain(["\u{2028}\u{2029}"]) {
        let made = Markup::json(&text).unwrap();
        assert!(!made.as_str().contains(['<', '>', '&', '\u{2028}']));
        let back: String = serde_json::from_str(made.as_str()).unwrap();
        assert_eq!(back, text);
    }
}

#[test]
fn a_long_name_is_cut_in_its_middle() {
    let long = "ab".repeat(50_000) + "-the-end";
    let shown = short(&long);
    assert_eq!(shown.chars().count(), SHOWN);
    assert!(
        shown.starts_with("abab") && shown.ends_with("-the-end"),
        "{shown}"
    );
    assert_eq!(short("web-1"), "web-1");
    assert!(name(&long).as_str().len() < 200);
}

#[test]
fn a_sentence_keeps_numbers_with_units_and_shows_code() {
    let made = prose("costs 1.36 % less, `a <b>` in 5 us. 2 of them");
    assert_eq!(
        made.as_str(),
        "costs 1.36&#160;% less, <code>a &lt;b&gt;</code> in 5&#160;us. 2 of them"
    );
}

#[test]
fn elements_nest_and_void_ones_have_no_end() {
    let made: Markup = el("div").with_all([el("br"), el("b").with("x")]).into();
    assert_eq!(made.as_str(), "<div><br><b>x</b></div>");
}
