import ArgumentParser
import Logging
import MegatonCluster
import MegatonCommandLine
import MegatonRedis
import NIOPosix

/// `megaton queue reshard`
struct QueueReshardCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reshard",
        abstract: "Change the number of shards of the queue.",
        discussion: """
            Each shard has its own keys and its own leader. In a Redis Cluster its hash tag, such as {default:1}, decides \
            on which master it is; of several --redis, shard K is on the server K modulo their number. No job moves: more \
            shards share the jobs of new batches. To have fewer, wait until the others are empty; otherwise the command \
            says what they have.

            Workers and coordinators notice the change within a minute, finish their jobs, and exit with 69, so \
            that their service manager starts them again. They read the number from Redis. If the command is \
            interrupted, run it again.

            Examples:
              megaton queue reshard 4 --redis redis+cluster://10.0.0.1:6379
              megaton queue reshard 2 --redis redis://10.0.0.1 --redis redis://10.0.0.2
            """
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: ArgumentHelp("Number of shards, 1 to 128.", valueName: "n"))
    var shards: Int

    @Flag(
        name: .customLong("accept-loss"),
        help: "Use servers again, empty, that have lost the data of their shards."
    )
    var acceptLoss = false

    mutating func validate() throws {
        try OptionRange.check("The number of shards", shards, ShardLayout.counts)
    }

    func run() async throws {
        try await reportingFailures {
            let address = try redis.address()
            let logger = LogOptions.logger("megaton", level: .error)
            let group = MultiThreadedEventLoopGroup.singleton
            // At least as many as the queue can have had: a change to fewer looks at those that it removes.
            let all = ShardLayout.counts.map { number in
                address.shard(number - 1, role: "reshard", group: group, logger: logger)
            }
            defer { for shard in all { shard.close() } }
            try await all[0].redis.connect()
            for shard in all.prefix(shards) {
                if let reason = try await EvictionPolicyCheck.run(shard.redis) { Terminal.note("megaton: \(reason)") }
            }
            let old = try await Resharding(address) { all[$0] }.change(to: shards, acceptsLoss: acceptLoss)
            if old == shards {
                try Terminal.output("the queue \"\(redis.queue)\" has \(Counted.of(shards, "shard"))")
            } else {
                try Terminal.output(
                    "the queue \"\(redis.queue)\" has \(Counted.of(shards, "shard")), and had \(old). Workers and "
                        + "coordinators end within a minute and have to start again."
                )
            }
        }
    }
}
