import Logging
import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

extension QueueFixture {
    /// Empties the outbox, as the leader does.
    func moveOutcomes(logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }) async throws {
        let delivery = ReplyDelivery(queue: queue, name: "leader", epoch: epoch, logger: logger)
        await withTaskGroup(of: Void.self) { group in
            let isEmpty = AsyncStream<Void>.makeStream()
            group.addTask {
                await delivery.run {
                    isEmpty.continuation.yield()
                    // Until the task is cancelled.
                    for await _ in AsyncStream<Void>.makeStream().stream {}
                }
            }
            for await _ in isEmpty.stream { break }
            group.cancelAll()
        }
        #expect(try await count("EXISTS", keys.replies) == 0)
    }

    /// A counter of the queue; 0 if it was never written.
    func statistic(_ field: String) async throws -> Int {
        try await redis.send(["HGET", .string(keys.stat), .string(field)]).int ?? 0
    }
}
