import Foundation
import Logging
import MegatonRedis
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonCluster
@testable import MegatonPipeline

/// Originals of sources that several admitted jobs name are stored by the first fetch.
@Suite(.timeLimit(.minutes(1))) struct RepeatedSourcesTests {
    private static let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private func job(_ source: String, credential: String? = nil) -> Job {
        Job(source: source, credential: credential)
    }

    private func withSources(
        window: Int = 100,
        _ body: (RepeatedSources, RedisClient) async throws -> Void
    ) async throws {
        try await RedisServerProcess.run { (server) async throws in
            let client = server.client()
            defer { client.close() }
            let cache = RedisDataCache(redis: client, logger: Self.logger)
            try await body(RepeatedSources(cache: cache, window: window, logger: Self.logger), client)
        }
    }

    private func marks(_ client: RedisClient) async throws -> Set<String> {
        Set((try await client.send(["KEYS", "megaton:s:*"]).array ?? []).compactMap(\.string))
    }

    private func mark(_ job: Job) throws -> String { CacheKeys.touch(try #require(job.original)) }

    @Test func onlyRepeatedRemoteSourcesAreMarked() async throws {
        try await withSources { sources, client in
            let web = ["https://example.org/a.jpg", "HTTP://example.org/b.jpg", "s3://bucket/c.jpg"].map { job($0) }
            let others = [
                job("file:///a.jpg"), job("file:///a.jpg"), job("data:image/png;base64,xx"),
                job("data:image/png;base64,xx"),
                job("https://example.org/once.jpg"), job("https://example.org/a.jpg", credential: "mine"),
                job("https:"), job("https:"),
            ]
            sources.note(web + others)
            sources.note(web.reversed())
            let expected = Set(try web.map(mark))
            while try await !marks(client).isSuperset(of: expected) { await Task.yield() }
            let empty = try mark(job("https:"))
            #expect(try await marks(client).subtracting([empty]) == expected)
        }
    }

    /// A source is forgotten when as many jobs were admitted as may be admitted at a time.
    @Test func theWindowIsBounded() async throws {
        try await withSources(window: 2) { sources, client in
            let names = ["a", "b", "c", "a", "b", "c", "d", "d"].map { job("https://example.org/\($0)") }
            for job in names { sources.note([job]) }
            while try await marks(client).isEmpty { await Task.yield() }
            #expect(try await marks(client) == [mark(names[7])])
        }
    }

    /// The key is that of the original that a worker fetches for the job.
    @Test func theFirstFetchOfAMarkedSourceIsStored() async throws {
        try await withSources { sources, client in
            let named = job("https://example.org/a.jpg", credential: "mine")
            sources.note([named, named])
            while try await marks(client).isEmpty { await Task.yield() }
            let lock = InFlightLock(
                cache: RedisDataCache(redis: client, logger: Self.logger),
                owner: "one",
                group: MultiThreadedEventLoopGroup.singleton,
                logger: Self.logger
            )
            let key = try #require(named.original)
            let lead = try #require(await lock.begin([key]).first?.leader)
            var entry = CachedData(data: Data("x".utf8), metadata: .init(lifetime: 60))
            entry.isStoredIfReused = true
            await lock.finish([(lead, entry)])
            #expect(try await client.send(["EXISTS", .string(CacheKeys.entry(key))]).int == 1)
        }
    }

    /// The leader notes jobs when it admits them.
    @Test func admittedJobsAreNoted() async throws {
        try await QueueFixture.run { (fixture) async throws in
            let cache = RedisDataCache(redis: fixture.redis, logger: Self.logger)
            let intake = Intake(
                queue: fixture.queue,
                name: "leader",
                validator: JobValidator(presets: [:]),
                repeats: RepeatedSources(cache: cache, window: 100, logger: Self.logger)
            )
            let jobs = [16, 32].map { (width: Int) in
                Job(
                    id: "\(width)",
                    source: "https://example.org/a.jpg",
                    renditions: [Rendition(width: width)]
                )
            }
            for job in jobs { try await fixture.push(job.json()) }
            var (window, staged) = (AdmissionWindow(limit: 100), StagedJobs())
            window.observe(.places(100))
            while try await fixture.count("HLEN", fixture.keys.body) < 2 {
                _ = try await intake.admit(epoch: fixture.epoch, window: &window, staged: &staged, chunk: 100)
            }
            while try await marks(fixture.redis).isEmpty { await Task.yield() }
            #expect(try await marks(fixture.redis) == [mark(jobs[0])])
        }
    }
}
