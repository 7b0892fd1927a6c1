//! One conversation with each agent, for as long as settings are looked at or changed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use haltwise_core::ids::VmKey;
use haltwise_core::parameter::Parameter;

use super::{AgentError, GuestAgent, PATIENCE, QUICK, Seen};
use crate::root::Root;

/// Agents that were asked. All that one takes for its answers is limited together: one that was silent once is not waited for
/// again, and one that is slow is silent.
#[derive(Debug, Default)]
pub(crate) struct Sessions(RefCell<BTreeMap<VmKey, Session>>);

#[derive(Debug)]
struct Session {
    /// `None` where an answer may still be under way: the next conversation begins with another connection.
    agent: Option<GuestAgent>,
    patience: Duration,
}

impl Sessions {
    /// A parameter in a guest; `None` if the VM has ended.
    pub(crate) fn read(
        &self,
        root: &Root,
        vm: VmKey,
        parameter: Parameter,
    ) -> Result<Option<Seen>, AgentError> {
        match self.with(root, vm, |agent| agent.read(parameter)) {
            Err(AgentError::Gone(_)) => Ok(None),
            read => read.map(Some),
        }
    }

    pub(crate) fn write(
        &self,
        root: &Root,
        vm: VmKey,
        parameter: Parameter,
        value: &str,
    ) -> Result<(), AgentError> {
        self.with(root, vm, |agent| agent.write(parameter, value))
    }

    fn with<T>(
        &self,
        root: &Root,
        vm: VmKey,
        act: impl FnOnce(&mut GuestAgent) -> Result<T, AgentError>,
    ) -> Result<T, AgentError> {
        let mut sessions = self.0.borrow_mut();
        let session = sessions.entry(vm).or_insert(Session {
            agent: None,
            patience: PATIENCE,
        });
        if session.patience.is_zero() {
            return Err(AgentError::Silent(vm.pid));
        }
        let began = Instant::now();
        let until = began + session.patience;
        let agent = match session.agent.take() {
            Some(agent) => Ok(agent),
            None => GuestAgent::of(root, vm, until),
        };
        let done = agent.and_then(|mut agent| {
            agent.until = until;
            let done = act(&mut agent);
            let is_kept = matches!(
                done,
                Ok(_) | Err(AgentError::Refused { .. } | AgentError::Absent { .. })
            );
            session.agent = is_kept.then_some(agent);
            done
        });
        let took = began.elapsed().saturating_sub(QUICK);
        session.patience = match done {
            Err(AgentError::Silent(_)) => Duration::ZERO,
            _ => session.patience.saturating_sub(took),
        };
        done
    }
}
