internal import Foundation
package import MegatonRedis

extension Inspector {
    /// The jobs that died last, the newest first, of all shards that answer.
    ///
    /// Letters are in the order of their deaths within a shard, so that the last ones of each shard suffice. One that
    /// dies between the two commands is missing until the next call.
    ///
    /// - Parameter limit: maximum number of jobs; a shard with very large ones may have fewer.
    /// - Throws: if no shard answers, or one refuses to.
    package func newestDeadJobs(limit: Int) async throws(RedisError) -> [DeadLetter] {
        let letters = try await sum(over: [DeadLetter]()) { (shard, all: inout [DeadLetter]) async throws(RedisError) in
            let count = try await shard.deadCount()
            all += try await shard.deadLetters(offset: max(0, count - limit), limit: limit)
        }
        return Array(letters.sorted { $0.died > $1.died }.prefix(limit))
    }
}

extension DeadLetter {
    /// The one field of a job that a list of failures shows.
    private struct Request: Decodable {
        let source: String
    }

    /// The URL of the job's source; nil if the job could not be read.
    package var source: String? {
        (try? JSONDecoder().decode(Request.self, from: Data(content.job.utf8)))?.source
    }
}
