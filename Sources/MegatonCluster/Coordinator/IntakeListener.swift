internal import Logging
internal import MegatonPipeline
internal import MegatonRedis
internal import NIOCore

/// Waits until jobs are pushed, without taking them.
///
/// A client's LPUSH is detected by moving the public list's last element to its own position: the command blocks while
/// the list is empty and changes nothing. The intakes of batches announce themselves with a token. Each of the two is
/// watched on its own connection, and only while the coordinator waits.
final class IntakeListener: Sendable {
    private let jobs: RedisClient
    private let batches: RedisClient
    private let commands: (jobs: RedisCommand, batches: RedisCommand)
    private let armed: (jobs: AsyncSignal, batches: AsyncSignal) = (AsyncSignal(), AsyncSignal())
    private let pushed = AsyncSignal()

    /// How long one command blocks; after that the coordinator looks by itself.
    private static let block: Duration = .seconds(1)

    init(_ redis: RedisConfiguration, keys: QueueKeys, group: any EventLoopGroup, logger: Logger) {
        jobs = RedisClient(redis, role: "intake", group: group, logger: logger)
        batches = RedisClient(redis, role: "intakewake", group: group, logger: logger)
        let seconds = RedisArgument.string(String(Int(Self.block.inSeconds)))
        commands = (
            ["BLMOVE", .string(keys.jobs), .string(keys.jobs), "RIGHT", "RIGHT", seconds],
            ["BLPOP", .string(keys.intakeWake), seconds]
        )
    }

    /// Watches whenever a caller waits, until the task is cancelled.
    func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.listen(on: self.jobs, with: self.commands.jobs, when: self.armed.jobs) }
            group.addTask { await self.listen(on: self.batches, with: self.commands.batches, when: self.armed.batches) }
        }
    }

    /// Returns when jobs may have been pushed, and after little more than a second in any case.
    func wait() async {
        armed.jobs.signal()
        armed.batches.signal()
        await pushed.wait()
    }

    func close() {
        jobs.close()
        batches.close()
    }

    private func listen(on client: RedisClient, with command: RedisCommand, when armed: AsyncSignal) async {
        var backoff = Backoff()
        await armed.serve {
            try await client.send(command, timeout: Self.block + .seconds(2))
            backoff.reset()
        } pauseAfter: { error in
            // The coordinator's own commands meet the same failure and log it; here it only causes a back-off.
            backoff.next(after: error)
        } done: {
            pushed.signal()
        }
    }
}
