//! Builder of a kernel, by its release: a distributor's kernel is not upstream's of the same number.
//!
//! [`super::Rule::of`] has upstream's rule for it all the same. So output that relies on the rule says that it is
//! assumed, and on how many halts it was verified.

/// A builder of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distributor {
    pub name: &'static str,
    /// It keeps an old number for years and carries newer code, KVM's too, under it.
    pub keeps_number: bool,
}

/// The letters of the word of a release that tells, the name, and whether the number is kept. The first that
/// fits counts: `el9uek` before `el9`, and `pve` before the machine, which Debian's releases end with.
const KNOWN: [(&str, &str, bool); 22] = [
    ("elrepo", "ELRepo", false),
    ("eluek", "Oracle (UEK)", true),
    ("uek", "Oracle (UEK)", true),
    ("el", "Red Hat or a rebuild", true),
    ("amzn", "Amazon Linux", true),
    ("oe", "openEuler", true),
    ("oesp", "openEuler", true),
    ("al", "Alibaba Cloud Linux", true),
    ("an", "Anolis OS", true),
    ("tl", "TencentOS", true),
    ("tlinux", "TencentOS", true),
    ("ky", "Kylin", true),
    ("azl", "Azure Linux", false),
    ("cm", "Azure Linux", false),
    ("fc", "Fedora", false),
    ("pve", "Proxmox", false),
    ("proxmox", "Proxmox", false),
    ("generic", "Ubuntu", false),
    ("default", "SUSE", false),
    ("arch", "Arch Linux", false),
    ("amd", "Debian", false),
    ("arm", "Debian", false),
];

impl Distributor {
    /// Builder of the kernel of this release, as `uname -r` prints it; `None` where nothing shows it.
    pub fn of(release: &str) -> Option<Self> {
        let words: Vec<&str> = release.split(['.', '-', '_', '+']).collect();
        // Two letters alone are a word of anybody's: `fc40` is Fedora's, `-fc-` is not.
        let has = |word: &str, mark: &str| {
            let letters = word.chars().filter(char::is_ascii_alphabetic);
            letters.eq(mark.chars()) && (mark.len() > 2 || word.len() > mark.len())
        };
        let mut known = KNOWN.into_iter();
        let (_, name, keeps_number) =
            known.find(|(mark, ..)| words.iter().any(|word| has(word, mark)))?;
        Some(Self { name, keeps_number })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn releases_of_distributors_are_told_from_upstreams() {
        for (release, name) in [
            ("4.19.90-2112.8.0.0131.oe1.aarch64", "openEuler"),
            ("5.10.0-153.12.0.92.oe2203sp2.x86_64", "openEuler"),
            ("5.10.134-16.1.al8.x86_64", "Alibaba Cloud Linux"),
            ("5.4.119-19.0009.28.tl3", "TencentOS"),
            ("4.18.0-513.el8.x86_64", "Red Hat or a rebuild"),
            ("5.14.0-427.13.1.el9_4.x86_64", "Red Hat or a rebuild"),
            ("5.15.0-205.149.5.1.el9uek.x86_64", "Oracle (UEK)"),
            ("6.1.79-99.167.amzn2023.x86_64", "Amazon Linux"),
            ("6.8.12-4-pve", "Proxmox"),
            ("6.5.13-1-proxmox-amd64", "Proxmox"),
            ("6.8.9-300.fc40.x86_64", "Fedora"),
            ("5.15.0-91-generic", "Ubuntu"),
            ("6.1.0-51-cloud-amd64", "Debian"),
            ("5.10.0-32-amd64", "Debian"),
            ("6.12.1-1.el9.elrepo.x86_64", "ELRepo"),
        ] {
            let found = Distributor::of(release).map(|it| it.name);
            assert_eq!(found, Some(name), "{release}");
        }
        let upstreams = "6.1.192 6.19-rc3 7.2.13+ 6.12.0-golden 6.18.44-fc-v669 5.10 ";
        for upstream in upstreams.split(' ') {
            assert_eq!(Distributor::of(upstream), None, "{upstream}");
        }
        let keeps = |release| Distributor::of(release).is_some_and(|it| it.keeps_number);
        assert!(keeps("4.18.0-513.el8.x86_64") && keeps("4.19.90.oe1"));
        assert!(!keeps("6.12.1-1.el9.elrepo.x86_64") && !keeps("6.8.12-4-pve"));
    }
}
