internal import Foundation
internal import MegatonRedis
internal import NIOCore

/// A dead job with its id and the time of its death.
public struct DeadLetter: Sendable, Codable, Equatable {
    public let id: String
    /// The batch that it died in, or was requeued from; with the id it names the letter.
    public let batch: String?
    /// Seconds since 1970, by Redis' clock.
    public let died: Double
    public let job: DeadJob
    /// The queue's name for the job: batch and id.
    private(set) var key = ""

    private enum CodingKeys: String, CodingKey { case id, batch, died, job }

    init(key: String, died: Double, json: RedisValue) {
        self.key = key
        id = JobKey(key).id
        self.died = died
        let data = json.buffer.map { Data($0.readableBytesView) } ?? Data()
        // Where it cannot be read, that is what is told.
        job =
            (try? JSONDecoder().decode(DeadJob.self, from: data))
            ?? DeadJob(code: "unknown", message: "Its reason was lost or cannot be read.", job: "")
        // Earlier versions had the batch within the letter alone.
        batch = JobKey(key).batch ?? job.batch
    }
}
