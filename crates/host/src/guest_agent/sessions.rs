//! One conversation with each agent, for as long as settings are looked at or changed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use haltwise_core::ids::VmKey;

use super::{AgentError, GuestAgent, Seen};
use crate::knob::Parameter;
use crate::root::Root;

/// Agents that were asked. One that was silent once is not waited for again.
#[derive(Debug, Default)]
pub(crate) struct Sessions(RefCell<BTreeMap<VmKey, Session>>);

#[derive(Debug)]
enum Session {
    Open(GuestAgent),
    Silent,
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

    /// Writes a value in a guest.
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
        let agent = match sessions.remove(&vm) {
            Some(Session::Open(agent)) => Ok(agent),
            Some(Session::Silent) => Err(AgentError::Silent(vm.pid)),
            None => GuestAgent::of(root, vm),
        };
        let (agent, done) = match agent {
            Ok(mut agent) => {
                let done = act(&mut agent);
                (Some(agent), done)
            }
            Err(error) => (None, Err(error)),
        };
        // Where an answer may still be under way, the next conversation begins with another connection.
        let session = match (&done, agent) {
            (Err(AgentError::Silent(_)), _) => Some(Session::Silent),
            (Ok(_) | Err(AgentError::Refused { .. } | AgentError::Absent { .. }), Some(agent)) => {
                Some(Session::Open(agent))
            }
            _ => None,
        };
        if let Some(session) = session {
            sessions.insert(vm, session);
        }
        done
    }
}
