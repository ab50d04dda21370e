import MegatonRedis
import MegatonTestSupport
import Testing

@testable import MegatonCluster

/// A batch that begins in several shards.
@Suite(.timeLimit(.minutes(2))) struct ShardedSubmitterTests {
    /// A Redis without the replicas that it is to have refuses to write, for the moment.
    private func refuseWrites(_ isOn: Bool, _ redis: RedisClient) async throws {
        try await redis.send(["CONFIG", "SET", "min-replicas-to-write", isOn ? "1" : "0"])
    }

    /// Fault: a signal did not end the wait for a shard that went away while a batch began, which lasts a minute.
    @Test func aStopEndsTheBeginningOfABatch() async throws {
        try await RedisServerProcess.run { (first) async throws in
            try await RedisServerProcess.run { (second) async throws in
                let clients = [first.client(), second.client()]
                let operators = [first.client("operator"), second.client("operator")]
                defer { for client in clients + operators { client.close() } }
                let shards = clients.enumerated().map { number, redis in
                    JobQueue(redis, keys: QueueKeys(queue: "test", shard: number))
                }
                let queue = ShardedQueue(shards, layout: ShardLayout(count: 2, id: "a"))
                let stop = Switch()
                let submitter = ShardedSubmitter(queue: queue, batch: "b", stopsWaiting: { stop.isSet })
                // Otherwise the number of calls would include one in vain.
                try await operators[0].send(["SCRIPT", "LOAD", .string(QueueScripts.submit.source)])
                try await refuseWrites(true, operators[1])
                let start = ContinuousClock.now
                let job = Job(id: "j", source: "https://example.org/a.png", batch: "b")
                let adding = Task { try await submitter.add(job.json(), job: job) }
                // The batch begins in the first shard, and then in all at once.
                while try await operators[0].calls("evalsha") < 2 { await Task.yield() }
                try await refuseWrites(true, operators[0])
                try await refuseWrites(false, operators[1])
                let batch = RedisArgument.string(shards[1].keys.batch("b"))
                while try await operators[1].send(["EXISTS", batch]).int != 1 { await Task.yield() }
                // Both shards have the batch, and the first one does not confirm its layout.
                stop.set()
                await #expect { try await adding.value } throws: { ($0 as? RedisError)?.code == .notWritable }
                #expect(start.duration(to: .now) < .seconds(30))
                try await refuseWrites(false, operators[0])
                let isCancelled = try await submitter.cancel()
                #expect(isCancelled, "no part of it is left open")
            }
        }
    }
}
