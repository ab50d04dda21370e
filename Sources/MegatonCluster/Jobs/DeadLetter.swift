internal import Foundation
internal import MegatonRedis
internal import NIOCore

/// A dead job with its id and the time of its death.
public struct DeadLetter: Sendable, Codable, Equatable {
    public let id: String
    /// Seconds since 1970, by Redis' clock.
    public let died: Double
    public let job: DeadJob

    init(id: String, died: Double, json: RedisValue) {
        self.id = id
        self.died = died
        let data = json.buffer.map { Data($0.readableBytesView) } ?? Data()
        // Where it cannot be read, that is what is told.
        job =
            (try? JSONDecoder().decode(DeadJob.self, from: data))
            ?? DeadJob(code: "unknown", message: "Its reason was lost or cannot be read.", job: "")
    }
}
