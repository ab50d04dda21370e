import Foundation
import MegatonRedis
import Testing

extension RedisClient {
    /// Removes the next outcomes from a list that jobs name as their reply, which must come within the time of a test.
    func outcomes(_ count: Int, of list: String) async throws -> [Data] {
        var lines: [Data] = []
        while lines.count < count {
            let reply = try await send(["BLPOP", .string(list), "30"], timeout: .seconds(40)).array
            let line = try #require(reply?.last?.string, "\(lines.count) of \(count) outcomes")
            lines.append(Data(line.utf8))
        }
        return lines
    }
}
