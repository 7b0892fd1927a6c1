//! The page of documentation of a result as Markdown (tables as GitHub has them).

use std::fmt::Write as _;

use crate::figure::{Figure, Unit};
use crate::schema::{flat, kind};

/// A page: what the result is, notes, and a section for each kind of object.
pub fn page(title: &str, opening: &str, notes: &[&str], figures: &[Figure]) -> String {
    let mut text = format!("# {title}\n\n{opening}\n");
    if !notes.is_empty() {
        text.push('\n');
    }
    // Writing to a String cannot fail.
    for note in notes {
        let _ = writeln!(text, "* {note}");
    }
    let mut sections = vec![(vec!["Top level".to_owned()], flat(figures))];
    collect(figures, "", &mut sections);
    for (paths, figures) in &sections {
        let _ = writeln!(text, "\n## {}\n", paths.join(", "));
        text.push_str("| field | kind | meaning |\n| --- | --- | --- |\n");
        for figure in figures {
            let meaning = figure.meaning().replace('|', "\\|");
            let _ = writeln!(text, "| `{}` | {} | {meaning} |", figure.name, kind(figure));
        }
    }
    text
}

/// Where objects of one kind stand, and their figures.
type Section = (Vec<String>, Vec<Figure>);

fn collect(figures: &[Figure], at: &str, sections: &mut Vec<Section>) {
    for figure in flat(figures) {
        let (inner, list) = match figure.unit {
            Unit::Record(inner) => (flat(inner), ""),
            Unit::List(inner) => (flat(inner), "[]"),
            _ => continue,
        };
        let path = format!("{at}{}{list}", figure.name);
        let known = sections.iter_mut().find(|(_, known)| *known == inner);
        if let Some((paths, _)) = known {
            paths.push(format!("`{path}`"));
        } else {
            sections.push((vec![format!("`{path}`")], inner.clone()));
            collect(&inner, &format!("{path}."), sections);
        }
    }
}
