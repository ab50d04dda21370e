internal import Foundation
internal import MegatonRedis
internal import NIOCore

/// A dead job with its id and time of death.
public struct DeadLetter: Sendable, Codable, Equatable {
    public let id: String
    /// The batch that it died in, or was requeued from; together with the id it identifies the letter.
    public let batch: String?
    /// Seconds since 1970, by Redis' clock.
    public let died: Double
    public let job: DeadJob
    /// Key of the job in the queue: batch and id.
    private(set) var key = ""

    private enum CodingKeys: String, CodingKey { case id, batch, died, job }

    init(key: String, died: Double, json: RedisValue) {
        self.key = key
        id = JobKey(key).id
        self.died = died
        let data = json.buffer.map { Data($0.readableBytesView) } ?? Data()
        // An unreadable letter is reported as such.
        job =
            (try? JSONDecoder().decode(DeadJob.self, from: data))
            ?? DeadJob(code: "unknown", message: "Its reason was lost or cannot be read.", job: "")
        // Earlier versions stored the batch only in the letter.
        batch = JobKey(key).batch ?? job.batch
    }
}
