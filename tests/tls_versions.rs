//! Tests `record --see-tls` with an old broker, a newer JDK and passwords. The tests are as in tests/tls.rs. Also tests
//! `record --request-log`, with rows and verdicts compared with Kafka's log and with the agent's.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

#[path = "tls/logged.rs"]
mod logged;
#[path = "tls/site.rs"]
#[allow(dead_code, reason = "tests/tls.rs uses all of it")]
mod site;
#[path = "tls/still.rs"]
mod still;

use std::path::Path;

use e2e::{gate, jdk};
use lab::kafka::{DEFAULT_VERSION, OLD_VERSION};
use site::{rows_agree, survives_kills};

#[test]
fn rows_agree_on_an_old_broker_with_passwords() {
    let Some(_alone) = gate::live("TLS of an old broker with passwords") else { return };
    rows_agree("tls-old", OLD_VERSION, Path::new("java"), true);
}

#[test]
fn rows_agree_with_a_newer_jdk() {
    let Some(_alone) = gate::live("TLS with a newer JDK") else { return };
    let Some(java) = jdk::newer("TLS").map(|home| home.join("bin/java")) else { return };
    rows_agree("tls-newer-jdk", DEFAULT_VERSION, &java, true);
    rows_agree("tls-old-newer-jdk", OLD_VERSION, &java, false);
}

#[test]
fn recording_works_after_ten_killed_recorders() {
    let Some(_alone) = gate::live("an agent without its recorder, ten times") else { return };
    survives_kills("tls-ten-kills", &[0, 50, 100, 200, 400, 700, 1_000, 1_500, 2_200, 3_000]);
}

#[test]
fn stopped_parser_causes_a_loss_until_another_agent_copies() {
    let Some(_alone) = gate::live("an agent whose parser stands still") else { return };
    still::is_a_loss_until_another_agent_copies("tls-stopped-parser");
}

#[test]
fn each_request_of_kafkas_log_has_one_row() {
    let Some(_alone) = gate::live("rows of Kafka's request log") else { return };
    logged::rows_are_those_of_the_log("tls-logged");
}

#[test]
fn verdicts_by_kafkas_log_do_not_contradict_those_by_the_agent() {
    let Some(_alone) = gate::live("verdicts by Kafka's request log") else { return };
    logged::verdicts_agree("tls-logged-verdicts");
}
