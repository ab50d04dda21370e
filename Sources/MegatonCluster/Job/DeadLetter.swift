package import Foundation
internal import MegatonRedis
internal import NIOCore

/// A dead job with its id and time of death.
package struct DeadLetter: Sendable, Codable, Equatable {
    package let id: String
    /// The batch that it died in, or was requeued from; together with the id it identifies the letter.
    package let batch: String?
    /// Seconds since 1970, by Redis' clock.
    package let died: Double
    package let content: Content
    /// Key of the job in the queue: batch and id.
    private(set) var key = ""
    /// The shard of the queue that has it.
    private(set) var shard = 0

    private enum CodingKeys: String, CodingKey { case id, batch, died, content = "job" }

    init(key: String, died: Double, json: RedisValue, shard: Int = 0) {
        self.key = key
        self.shard = shard
        id = JobKey(key).id
        self.died = died
        let data = json.buffer.map { Data($0.readableBytesView) } ?? Data()
        // An unreadable letter is reported as such.
        content =
            (try? JSONDecoder().decode(Content.self, from: data))
            ?? Content(code: "unknown", message: "The reason is missing or cannot be read.", job: "")
        // Earlier versions stored the batch only in the letter.
        batch = JobKey(key).batch ?? content.batch
    }
}

extension DeadLetter {
    /// Content of a dead letter: the job and the reason of its death.
    package struct Content: Sendable, Hashable, Codable {
        /// Error code; `invalid_job` for a job that could not be read, `poison` for one that killed its workers.
        package var code: String
        package var message: String
        package var attempts: Int
        /// The worker that ended it; nil if no worker did.
        package var worker: String?
        package var batch: String?
        package var labels: Job.Labels?
        /// The job's JSON, or the first KiB of a pushed text that is not a valid job.
        package var job: String

        package init(
            code: String,
            message: String,
            attempts: Int = 0,
            worker: String? = nil,
            batch: String? = nil,
            labels: Job.Labels? = nil,
            job: String
        ) {
            self.code = code
            self.message = message
            self.attempts = attempts
            self.worker = worker
            self.batch = batch
            self.labels = labels
            self.job = job
        }
    }
}

extension DeadLetter {
    /// The letter as a JSON object, with the time of death as a date (`died_at`), and the job as an object (`request`)
    /// in addition to its original text.
    package func describedJSON(_ formatting: JSONSerialization.WritingOptions = []) throws -> Data {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let plain = try encoder.encode(self)
        guard var object = try JSONSerialization.jsonObject(with: plain) as? [String: Any] else { return plain }
        object["died_at"] = Date(timeIntervalSince1970: died).formatted(.iso8601)
        // Other text than JSON may have been pushed; it is in `job.job`.
        if let request = try? JSONSerialization.jsonObject(with: Data(content.job.utf8)) { object["request"] = request }
        return try JSONSerialization.data(
            withJSONObject: object,
            options: formatting.union([.sortedKeys, .withoutEscapingSlashes])
        )
    }
}
