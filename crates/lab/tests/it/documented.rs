//! Listings in the documentation of guests.

/// The listing in a guest's own documentation, without comments.
pub(crate) fn documented(source: &str, index: usize) -> String {
    let text: Vec<&str> = source
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let text = text.join("\n");
    let block = text.split("```nasm\n").nth(index + 1).unwrap();
    let block = block.split("```").next().unwrap();
    let code = block.lines().filter_map(|line| line.split(';').next());
    let lines = code.map(str::trim_end).filter(|line| !line.is_empty());
    lines.map(|line| line.to_owned() + "\n").collect()
}
