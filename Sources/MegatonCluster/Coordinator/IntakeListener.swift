internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

/// Waits until jobs are pushed, without taking them.
///
/// A client's LPUSH is detected by moving the public list's last element to its own position: the command blocks while
/// the list is empty and changes nothing. The intakes of batches announce themselves with a token. Each list is watched
/// on its own connection, and only while the coordinator waits.
final class IntakeListener: Sendable {
    private let watches: [Watch]
    private let pushed = AsyncSignal()

    /// A connection that waits for one kind of announcement whenever it is armed.
    private struct Watch {
        let redis: RedisClient
        let command: RedisCommand
        let armed = AsyncSignal()
    }

    /// How long one command blocks; after that the coordinator looks by itself.
    private static let block: Duration = .seconds(1)

    init(_ redis: RedisConfiguration, keys: QueueKeys, group: any EventLoopGroup, logger: Logger) {
        let seconds = RedisArgument.string(String(Int(Self.block.inSeconds)))
        let lists = Job.Priority.allCases.map { priority in
            let list = RedisArgument.string(keys.jobs(priority))
            return Watch(
                redis: RedisClient(redis, role: "intake", group: group, logger: logger),
                command: ["BLMOVE", list, list, "RIGHT", "RIGHT", seconds]
            )
        }
        let batches = Watch(
            redis: RedisClient(redis, role: "intakewake", group: group, logger: logger),
            command: ["BLPOP", .string(keys.intakeWake), seconds]
        )
        watches = lists + [batches]
    }

    /// Watches whenever a caller waits, until the task is cancelled.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            for watch in watches { group.addTask { await self.listen(watch) } }
        }
    }

    /// Returns when jobs may have been pushed, and after little more than a second in any case.
    func wait() async {
        for watch in watches { watch.armed.signal() }
        await pushed.wait()
    }

    func close() {
        for watch in watches { watch.redis.close() }
    }

    private func listen(_ watch: Watch) async {
        var backoff = Backoff()
        await watch.armed.serve {
            try await watch.redis.send(watch.command, timeout: Self.block + .seconds(2))
            backoff.reset()
        } pauseAfter: { error in
            // The coordinator's own commands meet the same failure and log it; here it only causes a back-off.
            backoff.next(after: error)
        } done: {
            pushed.signal()
        }
    }
}
