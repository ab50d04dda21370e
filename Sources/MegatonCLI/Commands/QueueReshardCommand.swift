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
            Examples:
              megaton queue reshard 4 --redis redis+cluster://10.0.0.1:6379
              megaton queue reshard 2 --redis redis://10.0.0.1 --redis redis://10.0.0.2

            Each shard has its own keys and its own leader. In a Redis Cluster its hash tag, such as {default:1}, \
            decides on which master it is; of several --redis, shard K is on the server K modulo their number. No job \
            moves: more shards share the jobs of new batches. To have fewer, name all servers of the queue as before, \
            and wait until the others are empty; otherwise the command says what they have. Afterwards all processes \
            name only the first servers, as many as there are shards.

            A shard stays on its server: more servers can be added at once only if each of the present ones has one \
            shard. Otherwise let the queue run empty, run the command with 1 and the present servers, and then with \
            the new number and all servers, the first one first.

            Workers and coordinators notice the change within a minute, finish their jobs, and exit with 69, so \
            that their service manager starts them again. They read the number from Redis. If the command is \
            interrupted, run it again.
            """
    )

    @OptionGroup var redis: RedisOptions

    @Argument(help: ArgumentHelp("Number of shards, 1 to 128.", valueName: "n"))
    var shards: Int

    @Flag(
        name: .customLong("accept-loss"),
        help: "Use servers again, empty, that have lost the data of their shards, or remove these shards."
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
            for server in Array(all.prefix(shards)).servers {
                if let reason = try await EvictionPolicyCheck.run(server) { Terminal.note("megaton: \(reason)") }
            }
            let before = try await all[0].layout()
            let old = try await Resharding(address) { all[$0] }.change(to: shards, acceptsLoss: acceptLoss) { loss in
                Terminal.error("megaton: \(loss)")
            }
            let had = old == shards ? "" : ", and had \(old)"
            // Also the same number again, if that has undone a change or repaired a loss.
            let consequence =
                try await all[0].layout() == before
                ? "" : ". Workers and coordinators end within a minute and have to start again."
            let unused = address.servers.dropFirst(shards).map(\.description).joined(separator: ", ")
            if !unused.isEmpty {
                Terminal.note("megaton: the queue has no shard any more on \(unused): leave it out of --redis now.")
            }
            try Terminal.output(
                "the queue \"\(redis.queue)\" has \(Counted.of(shards, "shard"))\(had)\(consequence)"
            )
        }
    }
}
