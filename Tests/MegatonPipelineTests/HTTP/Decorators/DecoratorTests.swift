import Foundation
import FoundationNetworking
import MegatonPipelineTesting
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline

private let chunks = [Data("ab".utf8), Data("cd".utf8)]

private func request(_ text: String = "http://example.com/a") -> URLRequest {
    URLRequest(url: URL(string: text) ?? URL(fileURLWithPath: "/"))
}

private func failure(_ code: ImagePipeline.Error.Code, retryAfter: Double? = nil) -> ScriptedLoader.Answer {
    .init(error: ImagePipeline.Error(code, "failed", retryAfter: retryAfter))
}

@Suite(.timeLimit(.minutes(2))) struct RetryingDataLoaderTests {
    private let clock = ManualClock()

    private func retrying(
        _ script: [ScriptedLoader.Answer],
        _ change: (inout RetryingDataLoader.Policy) -> Void = { _ in }
    ) -> (RetryingDataLoader, ScriptedLoader) {
        let loader = ScriptedLoader(script)
        var policy = RetryingDataLoader.Policy()
        change(&policy)
        return (RetryingDataLoader(loader, policy, clock: clock, chance: { 0 }), loader)
    }

    @Test func asksAgainUntilItSucceeds() async throws {
        let (retrying, loader) = retrying([failure(.unreachable), failure(.timedOut), .init(chunks: chunks)])
        let probe = LoadProbe()
        probe.start(request(), with: retrying)
        #expect(await clock.sleeper() == .milliseconds(125))
        clock.advance(by: .milliseconds(125))
        #expect(await clock.sleeper() == .milliseconds(250))
        clock.advance(by: .milliseconds(250))
        await probe.ended()
        #expect(probe.error == nil && probe.data == Data("abcd".utf8) && probe.chunks == 2)
        #expect(probe.completions == 1 && loader.requests.count == 3)
        #expect(probe.timings?.bytes == 4 && probe.state.withLock { $0.timings.count } == 1)
    }

    @Test func givesUpAfterItsAttempts() async throws {
        let (retrying, loader) = retrying([failure(.unreachable)]) { $0.attempts = 2 }
        let probe = LoadProbe()
        probe.start(request(), with: retrying)
        clock.advance(by: await clock.sleeper())
        await probe.ended()
        #expect(probe.failure?.code == .unreachable && probe.completions == 1 && loader.requests.count == 2)
    }

    @Test(arguments: [
        ImagePipeline.Error.Code.notFound, .accessDenied, .forbidden, .dataTooLarge, .cancelled, .throttled,
        .dataIsEmpty,
    ])
    func aPermanentFailureIsNotRetried(_ code: ImagePipeline.Error.Code) async throws {
        let (retrying, loader) = retrying([failure(code)])
        let probe = await LoadProbe.load(request(), with: retrying)
        #expect(probe.failure?.code == code && loader.requests.count == 1)
    }

    @Test func errorsOfOtherTypesAreFinalAndKept() async throws {
        struct Other: Error {}
        let (retrying, loader) = retrying([.init(error: Other())])
        let probe = await LoadProbe.load(request(), with: retrying)
        #expect(probe.error is Other && loader.requests.count == 1)
    }

    @Test func onlyWhatMayBeDoneTwiceIsDoneTwice() async throws {
        let (retrying, loader) = retrying([failure(.unreachable)])
        var post = request()
        post.httpMethod = "POST"
        #expect(await LoadProbe.load(post, with: retrying).failure?.code == .unreachable)
        #expect(loader.requests.count == 1)
    }

    @Test func deliveredBytesAreNotTakenBack() async throws {
        let broken = ScriptedLoader.Answer(chunks: [chunks[0]], error: ImagePipeline.Error(.incompleteBody, "cut"))
        let (retrying, loader) = retrying([broken, .init(chunks: chunks)])
        let probe = await LoadProbe.load(request(), with: retrying)
        #expect(probe.failure?.code == .incompleteBody && probe.data == chunks[0] && loader.requests.count == 1)
    }

    @Test func aBodyThatIsHeldIsFetchedAgainFromItsStart() async throws {
        let broken = ScriptedLoader.Answer(chunks: [chunks[0]], error: ImagePipeline.Error(.incompleteBody, "cut"))
        let (retrying, loader) = retrying([broken, .init(chunks: chunks)]) { $0.holdsBody = true }
        let probe = LoadProbe()
        probe.start(request(), with: retrying)
        clock.advance(by: await clock.sleeper())
        await probe.ended()
        #expect(probe.error == nil && probe.data == Data("abcd".utf8) && loader.requests.count == 2)
    }

    @Test func keepsRetryAfter() async throws {
        let (retrying, _) = retrying([failure(.httpStatus, retryAfter: 5), .init(chunks: chunks)]) {
            $0.isRetryable = { _ in true }
        }
        let probe = LoadProbe()
        probe.start(request(), with: retrying)
        #expect(await clock.sleeper() == .seconds(5))
        clock.advance(by: .seconds(5))
        await probe.ended()
        #expect(probe.error == nil)
        let (impatient, loader) = self.retrying([failure(.unreachable, retryAfter: 60)])
        #expect(await LoadProbe.load(request(), with: impatient).failure?.retryAfter == 60)
        #expect(loader.requests.count == 1)
    }

    @Test func waitsAreBounded() async throws {
        let (retrying, _) = retrying([failure(.unreachable)]) {
            $0.attempts = 70
            $0.maximumDelay = .seconds(1)
        }
        let probe = LoadProbe()
        probe.start(request(), with: retrying)
        for _ in 1..<70 {
            let wait = await clock.sleeper()
            #expect(wait <= .seconds(1))
            clock.advance(by: wait)
        }
        await probe.ended()
        #expect(probe.completions == 1)
    }

    @Test func cancellingWhileItWaitsEndsIt() async throws {
        let (retrying, loader) = retrying([failure(.unreachable)])
        let probe = LoadProbe()
        probe.start(request(), with: retrying)
        _ = await clock.sleeper()
        probe.cancel()
        probe.cancel()
        clock.advance(by: .seconds(60))
        #expect(clock.sleepers == 0 && loader.requests.count == 1 && probe.completions == 0)
    }

    @Test func cancellingReachesTheLoadBeneath() async throws {
        let (retrying, loader) = retrying([.init(chunks: [chunks[0]], isEndless: true)])
        let probe = LoadProbe()
        probe.start(request(), with: retrying)
        await probe.hasData()
        probe.cancel()
        await loader.waitForCancel()
        #expect(loader.cancelled == 1 && probe.completions == 0)
    }

    @Test func aRealOriginThatIsBusyIsAskedAgain() async throws {
        let count = Mutex(0)
        try await OriginServer.run(answer: { _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            return number < 3 ? .init(status: 503) : .init(body: Data("x".utf8))
        }) { (origin) async throws in
            var policy = RetryingDataLoader.Policy()
            policy.delay = .milliseconds(1)
            let loader = RetryingDataLoader(DataLoader.local(), policy)
            let probe = await LoadProbe.load(origin.url("/a"), with: loader)
            #expect(probe.data == Data("x".utf8) && origin.total == 3 && probe.timings?.status == 200)
        }
    }
}

@Suite(.timeLimit(.minutes(2))) struct CachingDataLoaderTests {
    private final class Memory: DataCaching {
        let entries = Mutex<[String: Data]>([:])

        func cachedData(for key: String) -> Data? { entries.withLock { $0[key] } }
        func storeData(_ data: Data, for key: String) { entries.withLock { $0[key] = data } }
    }

    private let memory = Memory()

    private func caching(_ answer: ScriptedLoader.Answer, maximumSize: Int = 1000) -> (
        CachingDataLoader, ScriptedLoader
    ) {
        let loader = ScriptedLoader([answer])
        let clock = Clock(time: Mutex(Date(timeIntervalSince1970: 1_000_000)))
        return (
            CachingDataLoader(loader, cache: memory, maximumSize: maximumSize, now: { clock.time.withLock { $0 } }),
            loader
        )
    }

    private final class Clock: Sendable {
        let time: Mutex<Date>
        init(time: consuming Mutex<Date>) { self.time = time }
    }

    @Test func theSecondRequestIsServedWithItsHeaderFields() async throws {
        let headers = ["Content-Type": "image/png", "ETag": "\"1\"", "Set-Cookie": "secret"]
        let (caching, loader) = caching(.init(chunks: chunks, headers: headers))
        let first = await LoadProbe.load(request(), with: caching)
        #expect(first.data == Data("abcd".utf8) && first.chunks == 2 && first.timings?.bytes == 4)
        let second = await LoadProbe.load(request(), with: caching)
        #expect(second.error == nil && second.data == first.data && second.completions == 1)
        #expect(second.response?.value(forHTTPHeaderField: "ETag") == "\"1\"")
        #expect(second.response?.mimeType == "image/png" && second.response?.url == request().url)
        #expect(second.response?.value(forHTTPHeaderField: "Set-Cookie") == nil)
        #expect(loader.requests.count == 1)
    }

    /// Fault: the origin was asked.
    @Test(arguments: ["Accept", "Authorization"]) func aRequestForTheCacheAloneAsksNoOrigin(_ field: String)
        async throws
    {
        let (caching, loader) = caching(.init(chunks: chunks, headers: [:]))
        var request = request()
        request.setValue("a", forHTTPHeaderField: field)
        request.setValue("only-if-cached", forHTTPHeaderField: "Cache-Control")
        let probe = await LoadProbe.load(request, with: caching)
        #expect(probe.failure?.code == .dataMissingInCache && loader.requests.isEmpty)
    }

    @Test func entriesAgeAsTheirOriginSays() async throws {
        let loader = ScriptedLoader([.init(chunks: chunks, headers: ["Cache-Control": "max-age=60"])])
        let clock = Clock(time: Mutex(Date(timeIntervalSince1970: 1_000_000)))
        let caching = CachingDataLoader(loader, cache: memory, now: { clock.time.withLock { $0 } })
        for (seconds, count) in [(0.0, 1), (59, 1), (60, 2), (61, 2), (-100, 3)] {
            clock.time.withLock { $0 = Date(timeIntervalSince1970: 1_000_000 + seconds) }
            #expect(await LoadProbe.load(request(), with: caching).data == Data("abcd".utf8))
            #expect(loader.requests.count == count, "after \(seconds) s")
        }
    }

    @Test(arguments: [
        ScriptedLoader.Answer(chunks: chunks, headers: ["Cache-Control": "no-store"]),
        .init(chunks: chunks, headers: ["Cache-Control": "private"]), .init(chunks: chunks, headers: ["Vary": "*"]),
        .init(chunks: chunks, status: 206), .init(chunks: [Data(count: 2000)]), .init(),
        .init(chunks: chunks, error: ImagePipeline.Error(.incompleteBody, "cut")),
    ])
    func aResponseThatMustNotBeStoredIsNot(_ answer: ScriptedLoader.Answer) async throws {
        let (caching, loader) = caching(answer)
        for _ in 0..<2 {
            let probe = await LoadProbe.load(request(), with: caching)
            #expect(probe.data == answer.chunks.reduce(Data(), +) && probe.completions == 1)
        }
        #expect(loader.requests.count == 2 && memory.entries.withLock { $0.isEmpty })
    }

    /// RFC 9111 section 4.4.
    @Test func anUnsafeMethodForgetsTheEntry() async throws {
        let loader = ScriptedLoader([.init(chunks: chunks, headers: ["Cache-Control": "max-age=60"])])
        let caching = CachingDataLoader(loader, cache: MemoryDataCache())
        var put = request()
        put.httpMethod = "PUT"
        // Fault: entries of requests with header fields stayed.
        var accept = request()
        accept.setValue("image/webp", forHTTPHeaderField: "Accept")
        let asked = [
            (request(), 1), (request(), 1), (accept, 2), (accept, 2), (put, 3), (request(), 4), (accept, 5),
            (accept, 5),
        ]
        for (asked, count) in asked {
            _ = await LoadProbe.load(asked, with: caching)
            #expect(loader.requests.count == count)
        }
    }

    @Test func requestsWithCredentialsOrConditionsBypassTheCache() async throws {
        let (caching, loader) = caching(.init(chunks: chunks))
        for (name, value) in [
            ("Authorization", "Bearer x"), ("Cookie", "x"), ("Range", "bytes=1-"), ("If-None-Match", "\"1\""),
        ] {
            var own = request()
            own.setValue(value, forHTTPHeaderField: name)
            _ = await LoadProbe.load(own, with: caching)
        }
        var named = request()
        named.credentialName = "partner"
        _ = await LoadProbe.load(named, with: caching)
        var post = request()
        post.httpMethod = "POST"
        _ = await LoadProbe.load(post, with: caching)
        // The response to the POST, which has an explicit lifetime.
        #expect(loader.requests.count == 6 && memory.entries.withLock { $0.count } == 1)
        var accept = request()
        accept.setValue("image/webp", forHTTPHeaderField: "Accept")
        for asked in [request(), accept, accept, request("http://example.com/b")] {
            _ = await LoadProbe.load(asked, with: caching)
        }
        #expect(loader.requests.count == 9 && memory.entries.withLock { $0.count } == 4)
    }

    @Test func aReloadFetchesAndKeeps() async throws {
        let (caching, loader) = caching(.init(chunks: chunks))
        var reload = request()
        reload.cachePolicy = .reloadIgnoringLocalCacheData
        for asked in [request(), reload, request()] { _ = await LoadProbe.load(asked, with: caching) }
        #expect(loader.requests.count == 2)
    }

    /// RFC 9111 sections 4 and 5.2.1.
    @Test func theDirectivesOfARequestCount() async throws {
        let headers = ["Cache-Control": "max-age=60", "Age": "7"]
        let (caching, loader) = caching(.init(chunks: chunks, headers: headers))
        let asked: [(control: String?, count: Int)] = [
            (nil, 1), (nil, 1), ("no-cache", 2), ("max-age=6", 3), ("max-age=7", 3), ("no-store", 4), (nil, 4),
        ]
        for (control, count) in asked {
            var own = request()
            own.setValue(control, forHTTPHeaderField: "Cache-Control")
            let probe = await LoadProbe.load(own, with: caching)
            #expect(loader.requests.count == count, "\(control ?? "none")")
            #expect(probe.response?.value(forHTTPHeaderField: "Age") == "7")
        }
        #expect(memory.entries.withLock { $0.count } == 1)
    }

    @Test func aDamagedEntryIsAMiss() async throws {
        let (caching, loader) = caching(.init(chunks: chunks))
        let key = try #require(CachingDataLoader.key(for: request()))
        for damaged in ["", "L1", "L1\u{1}", "xx{}", "L1\u{2}\0\0\0{]"] {
            memory.storeData(Data(damaged.utf8), for: key)
            #expect(await LoadProbe.load(request(), with: caching).data == Data("abcd".utf8))
        }
        #expect(loader.requests.count == 5)
    }

    @Test func nothingIsSaidAfterCancel() async throws {
        let (caching, loader) = caching(.init(chunks: [chunks[0]], isEndless: true))
        let probe = LoadProbe()
        probe.start(request(), with: caching)
        await probe.hasData()
        probe.cancel()
        await loader.waitForCancel()
        #expect(probe.completions == 0 && loader.cancelled == 1)
    }
}

@Suite(.timeLimit(.minutes(2))) struct RecordingDataLoaderTests {
    private let directory: TestDirectory
    private let folder: URL

    init() throws {
        directory = try TestDirectory()
        folder = URL(fileURLWithPath: directory.path).appendingPathComponent("recordings")
    }

    @Test func aRecordedResponseIsReplayed() async throws {
        let url = "http://example.com/a?token=hush"
        let loader = ScriptedLoader([
            .init(chunks: chunks, headers: ["Content-Type": "image/png", "Set-Cookie": "hush"])
        ])
        var asked = request(url)
        asked.setValue("Bearer hush", forHTTPHeaderField: "Authorization")
        let recorder = RecordingDataLoader(folder: folder, .record(loader))
        let first = await LoadProbe.load(asked, with: recorder)
        let attributes = try FileManager.default.attributesOfItem(atPath: folder.path)
        #expect(attributes[.posixPermissions] as? Int == 0o700, "for its owner only")
        #expect(first.error == nil && first.data == Data("abcd".utf8) && first.chunks == 2)
        #expect(directory.files.count == 2)
        for file in directory.files {
            #expect(try !String(contentsOfFile: "\(directory.path)/\(file)", encoding: .utf8).contains("hush"))
        }
        let player = RecordingDataLoader(folder: folder, .replay)
        let second = await LoadProbe.load(asked, with: player)
        #expect(second.error == nil && second.data == first.data && second.completions == 1)
        #expect(second.response?.mimeType == "image/png" && second.response?.url == asked.url)
        #expect(loader.requests.count == 1)
    }

    @Test func errorsAreReplayedToo() async throws {
        let error = ImagePipeline.Error(.httpStatus, "busy", retryAfter: 7, status: 503)
        let recorder = RecordingDataLoader(folder: folder, .record(ScriptedLoader([.init(error: error)])))
        #expect(await LoadProbe.load(request(), with: recorder).failure == error)
        let player = RecordingDataLoader(folder: folder, .replay)
        let probe = await LoadProbe.load(request(), with: player)
        #expect(probe.failure == error && probe.chunks == 0)
    }

    @Test func whatIsNotThereIsNotFound() async throws {
        let player = RecordingDataLoader(folder: folder, .replay)
        let probe = await LoadProbe.load(request(), with: player)
        #expect(probe.failure?.code == .notFound && probe.failure?.message.contains("http://example.com/a") == true)
    }

    @Test func aMissingResponseIsRecorded() async throws {
        let loader = ScriptedLoader([.init(chunks: chunks)])
        let recorder = RecordingDataLoader(folder: folder, .recordMissing(loader))
        for _ in 0..<3 { #expect(await LoadProbe.load(request(), with: recorder).data == Data("abcd".utf8)) }
        var range = request()
        range.setValue("bytes=1-", forHTTPHeaderField: "Range")
        _ = await LoadProbe.load(range, with: recorder)
        #expect(loader.requests.count == 2)
    }

    @Test func aFolderThatCannotBeWrittenIsAnError() async throws {
        let file = try directory.write(Data(), to: "file")
        let recorder = RecordingDataLoader(
            folder: URL(fileURLWithPath: file),
            .record(ScriptedLoader([.init(chunks: chunks)]))
        )
        #expect(await LoadProbe.load(request(), with: recorder).failure?.code == .outputFailed)
    }

    @Test func decoratorsCompose() async throws {
        final class Memory: DataCaching {
            let entries = Mutex<[String: Data]>([:])
            func cachedData(for key: String) -> Data? { entries.withLock { $0[key] } }
            func storeData(_ data: Data, for key: String) { entries.withLock { $0[key] = data } }
        }
        let scripted = ScriptedLoader([failure(.unreachable), .init(chunks: chunks)])
        var policy = RetryingDataLoader.Policy()
        policy.delay = .zero
        let loader = CachingDataLoader(
            RetryingDataLoader(RecordingDataLoader(folder: folder, .record(scripted)), policy),
            cache: Memory()
        )
        for _ in 0..<2 { #expect(await LoadProbe.load(request(), with: loader).data == Data("abcd".utf8)) }
        #expect(scripted.requests.count == 2)
    }
}
