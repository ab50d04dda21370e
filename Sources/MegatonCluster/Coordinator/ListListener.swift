internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

/// Waits until something is pushed to lists, without taking it: jobs to the intakes, or outcomes to the outbox.
///
/// A push is detected by moving the list's next element to its own position: the command blocks while the list is empty
/// and changes nothing. The intakes of batches announce themselves with a token. Each list is watched on its own
/// connection, and only while the coordinator waits.
final class ListListener: Sendable {
    private let watches: [Watch]
    private let pushed = AsyncSignal()

    /// A connection that waits for one kind of announcement whenever it is armed.
    private struct Watch {
        let redis: RedisClient
        let command: RedisCommand
        let armed = AsyncSignal()
    }

    /// How long one command blocks; after that the coordinator looks by itself.
    private let block: Duration

    private static let intakeBlock: Duration = .seconds(1)
    private static let outboxBlock: Duration = .seconds(10)

    private init(_ watches: [Watch], block: Duration) {
        self.watches = watches
        self.block = block
    }

    /// A listener for pushed jobs.
    convenience init(intakesOf keys: QueueKeys, _ redis: RedisConfiguration, group: any EventLoopGroup, logger: Logger)
    {
        let seconds = RedisArgument.string(String(Int(Self.intakeBlock.inSeconds)))
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
        self.init(lists + [batches], block: Self.intakeBlock)
    }

    /// A listener for outcomes that are to be sent.
    convenience init(outboxOf keys: QueueKeys, _ redis: RedisConfiguration, group: any EventLoopGroup, logger: Logger) {
        let (list, seconds) = (RedisArgument.string(keys.replies), String(Int(Self.outboxBlock.inSeconds)))
        let watch = Watch(
            redis: RedisClient(redis, role: "replies", group: group, logger: logger),
            command: ["BLMOVE", list, list, "LEFT", "LEFT", .string(seconds)]
        )
        self.init([watch], block: Self.outboxBlock)
    }

    /// Watches whenever a caller waits, until the task is cancelled.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            for watch in watches { group.addTask { await self.listen(watch) } }
        }
    }

    /// Returns when something may have been pushed, and after little more than the time of one command in any case.
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
            try await watch.redis.send(watch.command, timeout: block + .seconds(2))
            backoff.reset()
        } pauseAfter: { error in
            // The coordinator's own commands meet the same failure and log it; here it only causes a back-off.
            backoff.next(after: error)
        } done: {
            pushed.signal()
        }
    }
}
