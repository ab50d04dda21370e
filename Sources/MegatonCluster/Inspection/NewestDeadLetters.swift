internal import Foundation
internal import MegatonCore
package import MegatonRedis

/// The newest dead letters of a queue, and the number of all.
package struct NewestDeadLetters: Sendable, Equatable {
    /// The newest first.
    package var letters: [DeadLetter] = []
    /// Number of all dead letters.
    package var total = 0

    package init(letters: [DeadLetter] = [], total: Int = 0) {
        self.letters = letters
        self.total = total
    }
}

extension Inspector {
    /// The newest dead letters of all shards that answer, and the number of all.
    ///
    /// - Parameter limit: maximum number of letters. There are fewer if they have more than 8 MiB in a shard.
    /// - Throws: if no shard answers, or one refuses to.
    package func newestDeadLetters(limit: Int) async throws(RedisError) -> NewestDeadLetters {
        var newest = try await sum(over: NewestDeadLetters()) {
            (shard, all: inout NewestDeadLetters) async throws(RedisError) in
            let count = try await shard.deadCount()
            all.total += count
            if count > 0 { all.letters += try await shard.deadLetters(offset: max(count - limit, 0), limit: limit) }
        }
        newest.letters.sort { ($0.died, $0.id) > ($1.died, $1.id) }
        newest.letters = Array(newest.letters.prefix(limit))
        return newest
    }
}

extension DeadLetter {
    /// The one field of a job that a list of failures shows.
    private struct Request: Decodable {
        let source: String
    }

    /// Bytes of a source above which only its scheme is shown.
    private static let longestSource = 64 * 1024

    /// The URL of the job's source without its secrets; nil if the job cannot be read.
    package var shownSource: String? {
        guard let source = (try? JSONDecoder().decode(Request.self, from: Data(content.job.utf8)))?.source else {
            return nil
        }
        if source.utf8.count > Self.longestSource { return "\(source.prefix(20).prefix { $0 != ":" }):…" }
        return Redaction.url(source)
    }
}
