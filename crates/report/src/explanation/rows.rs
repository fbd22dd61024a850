//! Verdicts as JSON lines, the last one a summary, and as CSV: one line per slow request, one column per stage. Only
//! JSON has the evidence.

use std::io::{self, Write};

use diagnose::LossDetail;
use diagnose::request_log_check::{Agreement, Differences, TimesComparison};
use model::{KafkaTimes, Partition, Stage, Verdict};
use serde_json::{Map, Value, json};

use super::finding::describe_finding;
use super::{Conclusion, ExplanationReport};
use crate::requests::{RequestRow, Requests, topic_name};
use crate::rows::{Cell, Column, Report, Writer, to_json};

/// Verdicts, one row each.
#[derive(Clone, Copy, Debug)]
pub struct Verdicts;

type Col = Column<Verdicts>;

impl Report for Verdicts {
    type Row<'a> = Verdict;
    const TYPE: &'static str = "verdict";

    fn columns(&self) -> Vec<Col> {
        let csv = |field: &'static str, cell: for<'a> fn(&'a Verdict) -> Cell<'a>| {
            Col::data(field, cell).not_in_json()
        };
        let json = |field: &'static str, cell: for<'a> fn(&'a Verdict) -> Cell<'a>| {
            Col::data(field, cell).not_in_csv()
        };
        let mut columns = vec![
            csv("arrival_ns", |verdict| Cell::Time(verdict.request.arrival)),
            csv("end_ns", |verdict| verdict.request.end.map(Cell::Time).into()),
            csv("latency_ns", |verdict| verdict.request.latency().map(Cell::Length).into()),
            csv("api", |verdict| verdict.request.api.into()),
            csv("correlation_id", |verdict| verdict.request.correlation_id.into()),
            csv("client", |verdict| Cell::display(verdict.request.client)),
            csv("broker", |verdict| Cell::display(verdict.request.broker)),
            csv("topic_partitions", |verdict| {
                let name = |of: &Partition| format!("{}-{}", topic_name(Some(of)), of.partition);
                Cell::List(verdict.request.partitions.iter().map(|of| name(of).into()).collect())
            }),
            json("request", |verdict| {
                Cell::Json(to_json(&Requests::default(), &RequestRow::of(&verdict.request)))
            }),
            json("stages", |verdict| {
                let stages =
                    verdict.stages.iter().map(|(stage, length)| (stage.as_str().into(), length.0.into()));
                Cell::Pairs(stages.collect())
            }),
            json("stage_spans", |verdict| Cell::Rows(&verdict.stage_spans)),
            Col::data("cause", |verdict| verdict.cause.as_str().into()),
            Col::data("chain", |verdict| {
                Cell::List(verdict.chain.iter().map(|cause| cause.as_str().into()).collect())
            }),
            Col::data("root", |verdict| (&*verdict.root).into()),
            Col::data("confidence", |verdict| verdict.confidence.as_str().into()),
            json("partition", |verdict| verdict.partition.as_ref().map(Cell::display).into()),
            json("evidence", |verdict| Cell::Rows(&verdict.evidence)),
            json("advice", |verdict| {
                Cell::List(verdict.advice.iter().map(|advice| (*advice).into()).collect())
            }),
            json("losses", |verdict| {
                Cell::List(verdict.losses.iter().map(|loss| (&**loss).into()).collect())
            }),
            json("kafka", |verdict| kafka(verdict).map_or(Cell::Absent, Cell::Value)),
            json("why_not", |verdict| {
                if verdict.doubts.is_empty() { Cell::Absent } else { Cell::Rows(&verdict.doubts) }
            }),
        ];
        columns.extend(Stage::ALL.map(|stage| {
            let length = move |verdict: &Verdict| verdict.stages.of(stage);
            Col::data(format!("{}_ns", stage.as_str()), move |verdict| Cell::Length(length(verdict)))
                .not_in_json()
        }));
        columns
    }
}

/// Kafka's own times of the request, by the names of its request log.
fn kafka(verdict: &Verdict) -> Option<Value> {
    let KafkaTimes { queue, local, remote, throttle, response_queue, send, total } = verdict.kafka?;
    Some(json!({
        "queue_ns": queue.0,
        "local_ns": local.0,
        "remote_ns": remote.0,
        "throttle_ns": throttle.0,
        "response_queue_ns": response_queue.0,
        "send_ns": send.0,
        "total_ns": total.0,
        // By more than the tolerance.
        "disagrees": TimesComparison::of(verdict).is_some_and(|comparison| comparison.disagrees()),
    }))
}

/// Verdicts as JSON lines or CSV, as they arrive.
impl<W: Write> ExplanationReport for Writer<Verdicts, W> {
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()> {
        self.row(&verdict)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output().flush()
    }

    fn finish(&mut self, conclusion: &Conclusion) -> io::Result<()> {
        self.summary(&summary(conclusion))?;
        Writer::finish(self)
    }
}

/// The totals of all verdicts.
fn summary(conclusion: &Conclusion) -> Value {
    let Conclusion { summary, agreement, lag, .. } = conclusion;
    let by_cause = summary.by_cause.iter().map(|total| {
        (total.cause.as_str().to_owned(), json!({"requests": total.requests, "time_ns": total.time.0}))
    });
    let by_root = summary.by_root.iter().map(|total| {
        json!({
            "root": &*total.root,
            "cause": total.cause.as_str(),
            "text": total.text,
            "requests": total.requests,
            "time_ns": total.time.0,
            "slowest_ns": total.slowest.0,
        })
    });
    let counts = |counts: &mut dyn Iterator<Item = (&'static str, u64)>| {
        Value::Object(counts.map(|(name, count)| (name.to_owned(), count.into())).collect())
    };
    let joins = &summary.joins;
    let mut value = json!({
        "type": "summary",
        "finding": (!conclusion.is_of_one_request).then(|| describe_finding(conclusion)),
        "requests": summary.requests,
        "slow": summary.slow,
        "slower_than_ns": conclusion.slower_than.0,
        "by_cause": by_cause.collect::<Map<_, _>>(),
        "by_root": by_root.collect::<Vec<_>>(),
        "joins": {
            "by_crc": joins.by_crc,
            "by_base_offset": joins.by_base_offset,
            "unjoined": joins.unjoined,
            "not_written": joins.not_written,
        },
        "losses": counts(&mut summary.losses.iter().map(|&(kind, count)| (kind.as_str(), count))),
        "loss_details": summary.loss_details.iter().map(|LossDetail { kind, detail, count }| {
            json!({"kind": kind.as_str(), "detail": &**detail, "count": count})
        }).collect::<Vec<_>>(),
        "outages": summary.outages().map(|(why, seconds)| json!({"why": why, "seconds": seconds}))
            .collect::<Vec<_>>(),
        "tls": summary.tls.iter().map(|(listener, count)| json!({
            "listener": listener.to_string(),
            "connections": count.connections,
            "bytes": count.bytes,
        })).collect::<Vec<_>>(),
        "not_judged": counts(&mut summary.not_judged.iter().copied()),
        "unobservable": conclusion.unobservable,
        "notes": conclusion.notes,
    });
    if let Some(object) = value.as_object_mut() {
        object.extend(
            agreement.as_ref().map(|agreement| ("request_log".to_owned(), agreement_value(agreement))),
        );
        object.extend(lag.map(|lag| {
            let lag = json!({"median_ns": lag.median.0, "p99_ns": lag.p99.0, "max_ns": lag.longest.0});
            ("lag".to_owned(), lag)
        }));
    }
    value
}

/// Agreement with Kafka's request log.
/// `local` is queue, handler, lock and append minus the log's queue and local time, `after` is remote and respond minus
/// the log's remote, response-queue and send time.
fn agreement_value(agreement: &Agreement) -> Value {
    let differences = |differences: &Differences| {
        let at = |share| differences.quantile(share).map(|difference| difference.0);
        // The share within the tolerance, 0 to 1.
        json!({"within": differences.within(), "median_ns": at(0.5), "p01_ns": at(0.01), "p99_ns": at(0.99)})
    };
    json!({
        "compared": agreement.compared,
        "not_in_log": agreement.not_in_log,
        "partly_seen": agreement.partly_seen,
        "disagreeing": agreement.disagreeing,
        "local": differences(&agreement.local),
        "after": differences(&agreement.after),
    })
}

#[cfg(test)]
mod tests {
    use model::{Cause, Confidence, Partition, Request, Stages, TopicId, Verdict};

    use super::Verdicts;
    use crate::rows::{Format, Writer};

    fn verdict(partitions: Vec<Partition>) -> Verdict {
        let at = "10.0.0.1:9092".parse().unwrap();
        Verdict {
            stages: Stages::default(),
            stage_spans: Vec::new(),
            cause: Cause::Unobserved,
            chain: Vec::new(),
            root: "".into(),
            confidence: Confidence::Weak,
            evidence: Vec::new(),
            partition: None,
            advice: Vec::new(),
            losses: Vec::new(),
            kafka: None,
            doubts: Vec::new(),
            request: Request { partitions, ..Request::new(at, at) },
        }
    }

    #[test]
    fn topic_without_a_name_has_its_id_in_csv() {
        let partition = |topic: Option<&str>, topic_id| Partition {
            topic: topic.map(Into::into),
            topic_id,
            partition: 3,
            ..Partition::default()
        };
        let id = TopicId([7; 16]);
        let of = [partition(Some("a"), Some(id)), partition(None, Some(id))];
        let mut csv = Vec::new();
        Writer::new(&mut csv, &Verdicts, &Format::Csv).write_all(&[verdict(of.to_vec())]).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        assert!(csv.contains(&format!(",a-3 id:{id}-3,")), "{csv}");
    }
}
