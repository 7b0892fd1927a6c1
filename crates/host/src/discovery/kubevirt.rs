//! KubeVirt: a VM is a domain named `NAMESPACE_NAME` in a pod of its own.
//!
//! Neither name of a Kubernetes object may hold a `_`, so that the first one parts them. The pod's cgroup has
//! its UID; its name stands in the directory that the kubelet keeps for its logs,
//! `/var/log/pods/NAMESPACE_POD_UID`.

use crate::root::Root;

const LOGS: &str = "var/log/pods";

/// `NAMESPACE/NAME` of a domain's name; `None` if that is not KubeVirt's.
pub(super) fn named(domain: &str) -> Option<String> {
    let (namespace, name) = domain.split_once('_')?;
    let is_label = |text: &str| {
        let allowed =
            |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
        !text.is_empty() && text.bytes().all(allowed)
    };
    (is_label(namespace) && is_label(name)).then(|| format!("{namespace}/{name}"))
}

pub(super) fn pod(root: &Root, uid: &str) -> Option<String> {
    let folders = root.list(LOGS).ok()?;
    folders.iter().find_map(|folder| {
        let (pod, of) = folder.to_str()?.rsplit_once('_')?;
        let (_, name) = pod.split_once('_')?;
        (of == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_domain_has_two_names() {
        assert_eq!(named("shop_web-1").as_deref(), Some("shop/web-1"));
        assert_eq!(
            named("default_vm.example").as_deref(),
            Some("default/vm.example")
        );
        for other in [
            "web-1",
            "_web",
            "shop_",
            "Shop_web",
            "shop_web_1",
            "a/b_c",
            "",
        ] {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
