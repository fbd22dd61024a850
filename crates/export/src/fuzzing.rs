//! Entry points for the fuzz target `http`: requests from any client, and answers of a collector. Nothing else uses them.
//! Fuzzed by: http.

use crate::otlp::post;
use crate::server;

/// Method, path and `Accept` of a request, once its head is complete; `Err` if it is not a request.
pub fn request(bytes: &[u8]) -> Result<Option<[String; 3]>, String> {
    let request = server::parse(bytes).map_err(|error| error.to_string())?;
    Ok(request.map(|request| [request.method, request.path, request.accept]))
}

/// Whether a collector's answer is complete, and its meaning; `None` if it is not an answer.
pub fn collector_answer(bytes: &[u8]) -> (bool, Option<String>) {
    (post::is_whole(bytes), post::understand(bytes).ok().map(|answer| format!("{answer:?}")))
}
