//! One result through every renderer, and what strangers may write into it.

use proptest::prelude::*;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::block::Part;
use crate::text::Style;

mod other {
    #[derive(Debug, Clone, Copy, serde::Serialize)]
    pub(super) struct Spread {
        pub(super) p50: u64,
        pub(super) max: u64,
    }
}

figures! {
    /// Percentiles, as another crate has them.
    const SPREAD: other::Spread {
        /// Median.
        p50: u64 = Nanos,
        /// The largest.
        max: u64 = Nanos,
    }
}

figures! {
    /// How often.
    #[derive(Clone)]
    struct Counted {
        /// How often.
        count: u64 = Count,
        /// Its share of `host_ns` | of all.
        share: Option<f64> = Share,
    }
}

figures! {
    /// One reason.
    #[derive(Clone)]
    struct Reason {
        /// Its name.
        name: String = Name "reason",
        /// Kind of what was counted.
        kind: &'static str = Word,
        #[serde(flatten)]
        counted: Counted = Flat(Counted::FIGURES),
        /// Cost to the host.
        host_ns: u64 = Nanos "time",
        /// Its times; `null` where none
        /// is known.
        spread_ns: Option<other::Spread> = Record(SPREAD),
    }
}

figures! {
    struct Result {
        /// Version of this layout.
        schema: u32 = Number,
        /// Reasons, those that cost most first.
        reasons: Vec<Reason> = List(Reason::FIGURES),
        /// The same of the VMM.
        userspace: Vec<Reason> = List(Reason::FIGURES),
    }
}

fn reason(name: &str, count: u64) -> Reason {
    let counted = Counted {
        count,
        share: (count > 0).then_some(0.25),
    };
    Reason {
        name: name.to_owned(),
        kind: "exit",
        counted,
        host_ns: count * 1_500,
        spread_ns: (count > 0).then_some(other::Spread {
            p50: 1_200,
            max: 40_000,
        }),
    }
}

const SHOWN: [&str; 6] = [
    "name",
    "count",
    "host_ns",
    "share",
    "spread_ns.p50",
    "spread_ns.max",
];

fn table(rows: &[Reason]) -> Rows<'_, Reason> {
    Rows::new("Exits by reason", rows, 2).show(&SHOWN)
}

fn text(document: &Document, width: usize) -> String {
    let style = Style {
        width,
        colour: false,
    };
    text::render(document, style)
}

fn document(name: &str) -> Document {
    let rows = [reason(name, 27_900), reason("other", 0), reason("more", 1)];
    let mut made = Document::new();
    made.heading(prose!["Exits of ", Untrusted::from(name)]);
    made.fact(Untrusted::from(name), "36 exits in 3.00 s");
    made.prose("Costs `host_ns`.");
    made.table(table(&rows).spare(&["spread_ns.max"]).finish());
    made.push(block::Block::Bar(vec![Part::new("s-exit", name, 3)]));
    made.note(prose!["seen: ", Untrusted::from(name)]);
    made.remark("Times are known to 12.5 %.");
    made
}

#[test]
fn items_advice_and_terms_in_each_medium() {
    let mut made = Document::new();
    made.advice("Poll less.");
    made.item("one of several ".repeat(6));
    made.term("who", Untrusted::from("<web>"));
    made.term_to_do("remedy", "lower it ".repeat(9));
    let screen = "  Poll less.
  one of several one of several one of several one of several
    one of several one of several
  who     <web>
  remedy  lower it lower it lower it lower it lower it lower
          it lower it lower it lower it
";
    assert_eq!(text(&made, 62), screen);
    let page = html::render(&made);
    let page = page.as_str();
    for part in [
        "<p class=\"lead\">Poll less.</p>",
        "<dt>who</dt><dd><bdi class=\"name\">&lt;web&gt;</bdi></dd>",
        "<dt>remedy</dt>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
fn a_table_on_a_screen() {
    let made = text(&document("MSR_WRITE"), 80);
    let expected = "
== Exits of MSR_WRITE ==========================================================
MSR_WRITE: 36 exits in 3.00 s
  Costs `host_ns`.
reason     count    time  share     p50     max
MSR_WRITE  27.9k  41.9ms  25.0%  1.20us  40.0us
other          0     0ns      -       -       -
  and 1 more (--rows all)
";
    assert!(made.starts_with(expected.trim_start()), "{made}");
    assert!(
        made.ends_with(
            "  m MSR_WRITE 100 %\n\nnote: seen: MSR_WRITE\nTimes are known to 12.5 %.\n"
        )
    );
}

#[test]
fn a_command_stays_whole_on_every_medium() {
    let command = "haltwise apply --set halt_poll_ns=50000 --set halt_poll_ns_grow=4 --yes";
    let mut made = Document::new();
    made.command("apply", command);
    made.command("undo", "haltwise undo");
    let expected = format!("apply: {command}\nundo: haltwise undo\n");
    assert_eq!(text(&made, 40), expected);
    let made = html::render(&made);
    let expected = "<dt>undo</dt><dd class=\"command\" data-copy><code>haltwise undo</code></dd>";
    assert!(made.as_str().contains(expected), "{}", made.as_str());
}

#[test]
fn columns_go_before_space_and_space_before_names() {
    let rows = [reason("a-name-that-is-quite-long", 9)];
    let of = |width| {
        let mut made = Document::new();
        made.table(table(&rows).spare(&["spread_ns.max"]).finish());
        text(&made, width)
    };
    assert!(of(70).contains("a-name-that-is-quite-long      9  13.5us"));
    assert!(of(60).ends_with("a-name-that-is-quite-long      9  13.5us  25.0%  1.20us\n"));
    assert!(of(54).ends_with("a-name-that-is-quite-long     9 13.5us 25.0% 1.20us\n"));
    assert!(
        of(40).ends_with("a-name~te-long     9 13.5us 25.0% 1.20us\n"),
        "{}",
        of(40)
    );
    assert!(
        of(10).ends_with("13.5us 25.0% 1.20us\n"),
        "no number is cut"
    );
}

#[test]
fn figures_that_are_said_to_be_unknown_are_a_dash() {
    let rows = [reason("a", 3)];
    let made = table(&rows).unknown(&["host_ns"], |row| row.counted.count == 3);
    let made = made.with("twice", Unit::Count, |row| row.counted.count * 2);
    let made = made.titled("count", "how often").finish();
    assert_eq!(made.rows[0][1..3], [json!(3), json!(null)]);
    assert_eq!(made.rows[0][6], json!(6));
    assert_eq!(
        (made.columns[1].title.as_str(), made.more),
        ("how often", 0)
    );
}

#[test]
fn the_schema_says_type_unit_and_meaning() {
    let schema = schema::json_schema("exits", Result::FIGURES);
    assert_eq!(
        schema["required"],
        json!(["schema", "reasons", "userspace"])
    );
    let row = &schema["properties"]["reasons"]["items"];
    assert_eq!(
        row["required"],
        json!(["name", "kind", "count", "share", "host_ns", "spread_ns"])
    );
    assert_eq!(
        row["properties"]["share"],
        json!({
            "type": ["number", "null"],
            "minimum": 0,
            "description": "Its share of `host_ns` | of all.",
            "x-unit": "0 to 1"
        })
    );
    let spread = &row["properties"]["spread_ns"];
    assert_eq!(spread["type"], json!(["object", "null"]));
    assert_eq!(
        spread["description"],
        "Its times; `null` where none is known."
    );
    assert_eq!(spread["properties"]["p50"]["x-unit"], "ns");
}

#[test]
fn the_page_has_a_table_for_each_kind_of_object() {
    let notes = ["Shares are 0 to 1."];
    let page = schema::page("Exits", "One object.", &notes, Result::FIGURES);
    assert!(page.starts_with(
        "# Exits\n\nOne object.\n\n* Shares are 0 to 1.\n\n## Top level\n\n\
         | field | kind | meaning |\n| --- | --- | --- |\n\
         | `schema` | number | Version of this layout. |\n"
    ));
    assert!(page.contains("\n## `reasons[]`, `userspace[]`\n"), "{page}");
    assert!(
        page.contains("\n## `reasons[].spread_ns`, `userspace[].spread_ns`\n")
            || page.contains("\n## `reasons[].spread_ns`\n")
    );
    assert!(page.contains("| `share` | 0 to 1, or null | Its share of `host_ns` \\| of all. |"));
}

#[test]
fn a_page_says_what_columns_mean_and_sorts_by_numbers() {
    let rows = [reason("a<b>", 27_900)];
    let made = table(&rows)
        .bar("share", "s-exit")
        .sortable("reasons")
        .finish();
    let made = html::markup::Markup::from(html::table(&made));
    let made = made.as_str();
    for part in [
        "<table id=\"reasons\" data-sorts>",
        "title=\"Its share of host_ns | of all.\"",
        "<bdi class=\"name\">a&lt;b&gt;</bdi>",
        "data-v=\"27900\">27.9 k<",
        "width=\"25.00%\"",
    ] {
        assert!(made.contains(part), "{part}: {made}");
    }
}

#[test]
fn colour_is_ours_alone_and_ends_where_it_began() {
    let style = Style {
        width: 80,
        colour: true,
    };
    let made = text::render(&document("a\u{1b}[31mb"), style);
    assert!(made.starts_with("\u{1b}[1m== Exits of a?[31mb ="), "{made}");
    assert_eq!(made.matches("\u{1b}[0m\n").count(), 2);
    assert_eq!(made.matches('\u{1b}').count(), 4);
}

/// Texts that terminals, browsers, spreadsheets and Markdown take for their own.
fn hostile() -> impl Strategy<Value = String> {
    let bad = prop::sample::select(vec![
        "\u{1b}[2J",
        "\n",
        "\r",
        "<script>",
        "</td>",
        "\"",
        "'",
        "&",
        "`",
        "|",
        ",",
        "\u{202e}",
        "\u{0}",
        "\u{9b}",
        "*",
        "[a](b)",
        "x",
        "数",
        "note: ",
    ]);
    prop::collection::vec(bad, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_text_of_a_stranger_is_markup_or_steers(name in hostile()) {
        let document = document(&name);
        let on_screen = text(&document, 80);
        let steers = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        prop_assert!(!on_screen.contains(steers));
        prop_assert!(on_screen.lines().all(|line| line.width() <= 80));

        let page = html::render(&document);
        prop_assert!(page.as_str().is_ascii());
        prop_assert!(!page.as_str().contains("<script") && !page.as_str().contains(steers));
        let tags = |name: &str| html::render(&self::document(name)).as_str().matches('<').count();
        prop_assert_eq!(tags(&name), tags("plain"));
    }
}

#[test]
fn results_are_sorted_by_any_figure_and_what_is_not_known_stands_last() {
    let mut rows = vec![reason("b", 0), reason("c", 3), reason("a", 20)];
    let names = |rows: &[Reason]| rows.iter().map(|row| row.name.clone()).collect::<String>();
    for (key, order) in [
        ("name", "abc"),
        ("count", "acb"),
        ("share", "acb"),
        ("spread_ns.max", "acb"),
    ] {
        assert!(rows.sort_by(key));
        assert_eq!(names(&rows), order, "{key}");
    }
    assert!(!rows.sort_by("colour"));
    assert!(rows.keys().contains(&"spread_ns.p50".to_owned()));
}

proptest! {
    #[test]
    fn numbers_are_sorted_from_the_largest_whatever_their_sign(values in prop::collection::vec(-1e9..1e9_f64, 0..20)) {
        figures! {
            struct One {
                /// It.
                value: f64 = Real,
            }
        }
        let mut rows: Vec<One> = values.into_iter().map(|value| One { value }).collect();
        rows.sort_by("value");
        prop_assert!(rows.is_sorted_by(|a, b| a.value >= b.value));
    }
}

#[test]
fn what_opens_on_a_page_stands_open_on_a_screen() {
    let mut inner = Document::new();
    let rows = [reason("a<b>", 3)];
    let drawn = |_: &Reason| json!([1.0, -2.0, 3.0, 3.0]);
    let inner_table = Rows::new("Rest", &rows, 9).show(&["name", "count"]);
    inner.table(inner_table.with("about zero", Unit::Drawn, drawn).finish());
    let mut made = Document::new();
    made.folded("Not significant", inner);
    let shown = text(&made, 60);
    assert!(shown.starts_with("== Not significant ="), "{shown}");
    assert!(shown.contains("reason  count\na<b>        3\n"), "{shown}");
    assert!(!shown.contains("about zero"), "{shown}");
    let page = html::render(&made);
    let page = page.as_str();
    assert!(
        page.starts_with("<details><summary>Not significant</summary>"),
        "{page}"
    );
    assert!(
        page.contains("about zero") && page.contains("class=\"whisker\""),
        "{page}"
    );
    assert!(page.contains("a&lt;b&gt;"), "{page}");
}
