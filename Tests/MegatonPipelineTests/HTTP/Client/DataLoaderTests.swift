import Foundation
import FoundationNetworking
import MegatonTestSupport
import NIOCore
import Synchronization
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct DataLoaderTests {
    private let body = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0) })

    @Test func completionIsCalledOnceOnValidationFailure() async throws {
        try await OriginServer.run(answer: { _ in .init(status: 404, body: Data(count: 1000)) }) {
            (origin) async throws in
            let loader = DataLoader.local()
            let probe = await LoadProbe.load(origin.url("/a"), with: loader)
            // The loader's one thread has delivered everything of the first load before it completes the second.
            _ = await LoadProbe.load(origin.url("/b"), with: loader)
            #expect(probe.completions == 1 && probe.chunks == 0 && probe.late == 0)
            #expect(probe.failure?.code == .notFound && probe.failure?.status == 404)
        }
    }

    @Test(arguments: [200, 201, 203, 226, 299])
    func validationAccepts2xxRange(_ status: Int) async throws {
        try await OriginServer.run(answer: { _ in .init(status: status, body: body) }) { (origin) async throws in
            let probe = await LoadProbe.load(origin.url("/a"), with: DataLoader.local())
            #expect(probe.error == nil && probe.data == body && probe.response?.statusCode == status)
        }
    }

    @Test(arguments: [300, 304, 305, 400, 401, 403, 404, 410, 418, 429, 500, 503, 599])
    func validationRejectsNon2xxStatusCode(_ status: Int) async throws {
        try await OriginServer.run(answer: { _ in .init(status: status) }) { (origin) async throws in
            let probe = await LoadProbe.load(origin.url("/a"), with: DataLoader.local())
            #expect(probe.failure?.status == status && probe.chunks == 0)
        }
    }

    // A success status without the whole body is an error.
    @Test(arguments: [
        (204, ImagePipeline.Error.Code.dataIsEmpty), (205, .dataIsEmpty), (206, .httpStatus),
    ])
    func successesWithoutTheWholeBodyAreErrors(_ status: Int, _ code: ImagePipeline.Error.Code) async throws {
        let part = status == 206 ? body : Data()
        try await OriginServer.run(answer: { _ in .init(status: status, body: part) }) { (origin) async throws in
            let loader = DataLoader.local()
            let probe = await LoadProbe.load(origin.url("/a"), with: loader)
            #expect(probe.failure?.code == code && probe.failure?.isRetryable == false && probe.chunks == 0)
            guard status == 206 else { return }
            var request = URLRequest(url: origin.url("/a"))
            request.setValue("bytes=1-", forHTTPHeaderField: "Range")
            #expect(await LoadProbe.load(request, with: loader).data == part)
        }
    }

    @Test func aConditionalRequestMayBeAnsweredBy304() async throws {
        try await OriginServer.run(answer: { _ in .init(status: 304, headers: [("ETag", "\"1\"")]) }) {
            (origin) async throws in
            var request = URLRequest(url: origin.url("/a"))
            request.setValue("\"1\"", forHTTPHeaderField: "If-None-Match")
            let probe = await LoadProbe.load(request, with: DataLoader.local())
            #expect(probe.error == nil && probe.chunks == 1 && probe.data.isEmpty)
            #expect(probe.response?.statusCode == 304)
        }
    }

    @Test func aCustomRuleReplacesTheDefault() async throws {
        struct Unwanted: Error, Equatable {
            let status: Int?
        }
        try await OriginServer.run(answer: { path in .init(status: path == "/404" ? 404 : 200, body: body) }) {
            (origin) async throws in
            var configuration = DataLoader.Configuration()
            configuration.addressPolicy.allowsPrivate = true
            let loader = DataLoader(configuration) { response in
                let status = (response as? HTTPURLResponse)?.statusCode
                return status == 404 ? nil : Unwanted(status: status)
            }
            #expect(await LoadProbe.load(origin.url("/404"), with: loader).data == body)
            let probe = await LoadProbe.load(origin.url("/a"), with: loader)
            #expect(probe.error as? Unwanted == Unwanted(status: 200))
            #expect(probe.chunks == 0 && probe.completions == 1)
        }
    }

    @Test func errorMidStream() async throws {
        try await OriginServer.run(answer: { _ in .init(body: body, announcedLength: body.count * 2) }) {
            (origin) async throws in
            let probe = await LoadProbe.load(origin.url("/a"), with: DataLoader.local())
            #expect(probe.failure?.code == .incompleteBody && probe.failure?.isRetryable == true)
            #expect(probe.chunks > 0 && probe.data.count <= body.count)
            #expect(probe.completions == 1 && probe.late == 0)
        }
    }

    /// libcurl delivers 16 KiB at a time. Data that has arrived together is delivered together, and none is left at the
    /// end.
    @Test func aLargeBodyIsDeliveredInFewPieces() async throws {
        let large = Data((0..<4 << 20).map { UInt8(truncatingIfNeeded: $0 / 997) })
        try await OriginServer.run(answer: { _ in .init(body: large) }) { (origin) async throws in
            let probe = await LoadProbe.load(origin.url("/a"), with: DataLoader.local())
            #expect(probe.failure == nil && probe.completions == 1 && probe.late == 0)
            #expect(probe.data == large)
            #expect(probe.chunks < large.count / (16 * 1024), "\(probe.chunks)")
        }
    }

    @Test(arguments: [false, true])
    func downloadExceedingMaximumResponseDataSize(isLengthUnknown: Bool) async throws {
        let stream = isLengthUnknown ? OriginStream(piece: Data(count: 1000)) : nil
        try await OriginServer.run(answer: { _ in .init(body: body, stream: stream) }) { (origin) async throws in
            let loader = DataLoader.local { $0.maximumBodySize = body.count - 1 }
            let probe = await LoadProbe.load(origin.url("/a"), with: loader)
            #expect(probe.failure?.code == .dataTooLarge && probe.completions == 1)
            if !isLengthUnknown { #expect(probe.chunks == 0, "its announcement is enough") }
        }
    }

    @Test func nothingIsSaidAfterCancel() async throws {
        let drip = OriginStream(piece: Data("x".utf8), interval: .milliseconds(1))
        try await OriginServer.run(answer: { path in path == "/drip" ? .init(stream: drip) : .init(body: body) }) {
            (origin) async throws in
            let loader = DataLoader.local()
            let watch = LoadWatch()
            loader.delegate = watch
            // Cancelled within a callback: no other callback may follow.
            let probe = LoadProbe { $0.cancel() }
            probe.start(URLRequest(url: origin.url("/drip")), with: loader)
            await watch.waitForLoads(1)
            #expect(probe.chunks <= 2, "the first may come before the load is known")
            #expect(probe.completions == 0 && probe.timings == nil)
            probe.cancel()
            // Loads before and after are unaffected.
            #expect(await LoadProbe.load(origin.url("/b"), with: loader).error == nil)
            #expect((watch.loads.first?.error as? ImagePipeline.Error)?.code == .cancelled)
        }
    }

    @Test func cancellingBeforeTheAnswerEndsTheLoad() async throws {
        try await OriginServer.run(answer: { _ in .init(body: body) }) { (origin) async throws in
            origin.hold()
            let loader = DataLoader.local()
            let watch = LoadWatch()
            loader.delegate = watch
            let probe = LoadProbe()
            probe.start(URLRequest(url: origin.url("/a")), with: loader)
            await origin.waitForRequests("/a", count: 1)
            probe.cancel()
            probe.cancel()
            await watch.waitForLoads(1)
            #expect(probe.completions == 0 && probe.chunks == 0)
        }
    }

    @Test func loadsOfALoaderThatIsGoneEnd() async throws {
        try await OriginServer.run(answer: { _ in .init(body: body) }) { (origin) async throws in
            origin.hold()
            let probe = LoadProbe()
            do {
                let loader = DataLoader.local()
                probe.start(URLRequest(url: origin.url("/a")), with: loader)
                await origin.waitForRequests("/a", count: 1)
            }
            await probe.ended()
            #expect(probe.failure?.code == .cancelled)
        }
    }

    @Test func methodAndBodyAreSent() async throws {
        let seen = Mutex<[[String: String]]>([])
        try await OriginServer.run(responding: { request in
            seen.withLock { $0.append(request.headers) }
            return .init(body: Data("x".utf8))
        }) { (origin) async throws in
            let loader = DataLoader.local()
            var request = URLRequest(url: origin.url("/post"))
            request.httpMethod = "POST"
            request.httpBody = body
            request.setValue("text/plain", forHTTPHeaderField: "Content-Type")
            request.setValue("", forHTTPHeaderField: "X-Empty")
            #expect(await LoadProbe.load(request, with: loader).error == nil)
            let fields = seen.withLock { $0[0] }
            #expect(fields["content-length"] == "100000" && fields["content-type"] == "text/plain")
            #expect(fields["x-empty"] == "" && fields["user-agent"] == "megaton")
            request = URLRequest(url: origin.url("/head"))
            request.httpMethod = "HEAD"
            let head = await LoadProbe.load(request, with: loader)
            #expect(head.error == nil && head.data.isEmpty && head.response?.statusCode == 200)
        }
    }

    // MARK: - Timings

    @Test func aDelegateHearsWhatEachLoadCost() async throws {
        try await OriginServer.run(delay: .milliseconds(20)) { path in
            switch path {
            case "/moved?token=secret": .init(status: 302, headers: [("Location", "/a?X-Amz-Signature=secret&x=1")])
            case "/missing": .init(status: 404)
            default: .init(body: body)
            }
        } _: { (origin) async throws in
            let loader = DataLoader.local()
            let watch = LoadWatch()
            loader.delegate = watch
            let probe = await LoadProbe.load(origin.url("/moved?token=secret"), with: loader)
            let timings = try #require(probe.timings)
            // With the first bytes, unless these are all, and at the end.
            let all = probe.state.withLock { $0.timings }
            #expect(all.count <= 2 && all[0].remoteAddress == "127.0.0.1" && all[0].redirects == 1)
            #expect(timings.redirects == 1 && timings.connects == 1 && timings.status == 200)
            #expect(timings.bytes == body.count && timings.httpVersion == "1.1")
            #expect(timings.remoteAddress == "127.0.0.1" && timings.tls == 0)
            #expect(timings.firstByte > 0.03 && timings.total >= timings.firstByte && timings.transfer >= 0)
            let url = try #require(timings.effectiveURL)
            #expect(url.hasSuffix("/a?…"), "\(url)")
            _ = await LoadProbe.load(origin.url("/missing"), with: loader)
            #expect(watch.loads.map(\.timings.status) == [200, 404])
            #expect(watch.loads[0].timings == timings && watch.loads[0].error == nil)
            #expect(watch.loads[1].timings.connects == 0, "the connection was kept alive")
            #expect((watch.loads[1].error as? ImagePipeline.Error)?.code == .notFound)
            #expect(!String(reflecting: watch.loads.map(\.timings)).contains("secret"))
        }
    }

    // MARK: - Time

    @Test func anOriginThatNeverAnswersTookTooLong() async throws {
        try await OriginServer.run(answer: { _ in .init() }) { (origin) async throws in
            origin.hold()
            let loader = DataLoader.local { $0.timeout = .milliseconds(200) }
            let probe = await LoadProbe.load(origin.url("/a"), with: loader)
            #expect(probe.failure?.code == .timedOut)
            #expect(probe.failure?.message.contains("took longer than") == true)
        }
    }

    /// A redirect does not restart the timeout.
    @Test func theTimeIsForAllHopsTogether() async throws {
        try await OriginServer.run(delay: .milliseconds(150)) { path in
            .init(status: 302, headers: [("Location", path + "x")])
        } _: { (origin) async throws in
            let loader = DataLoader.local { $0.timeout = .milliseconds(400) }
            let probe = await LoadProbe.load(origin.url("/a"), with: loader)
            #expect(probe.failure?.code == .timedOut && origin.total < 5)
        }
    }

    @Test func aConnectTimeoutHasItsOwnCode() async throws {
        // A socket whose accept queue is full does not answer a SYN. This works on any machine; other addresses that
        // drop packets may not exist.
        let (listener, port) = try fullListener()
        defer { for descriptor in listener { close(descriptor) } }
        let loader = DataLoader.local { $0.connectTimeout = .milliseconds(300) }
        let probe = await LoadProbe.load(try #require(URL(string: "http://127.0.0.1:\(port)/")), with: loader)
        #expect(probe.failure?.code == .connectTimedOut)
        #expect(probe.failure?.message.contains("did not connect") == true, "\(String(describing: probe.error))")
    }

    @Test func aSlowBodyHasItsOwnCode() async throws {
        let drip = OriginStream(piece: Data("x".utf8), interval: .milliseconds(20))
        try await OriginServer.run(answer: { _ in .init(stream: drip) }) { (origin) async throws in
            let loader = DataLoader.local { $0.lowSpeedTime = .seconds(1) }
            let probe = await LoadProbe.load(origin.url("/a"), with: loader)
            #expect(probe.failure?.code == .tooSlow)
            #expect(probe.failure?.message.contains("slower than") == true)
        }
    }

    /// Fault: a status was unknown if no byte of the body came.
    @Test func anInvalidResponseIsKnownByItsHeader() async throws {
        let never = OriginStream(piece: Data(count: 1), interval: .hours(1))
        let answer: @Sendable (String) -> OriginServer.Answer = { path in
            switch path {
            case "/cut": .init(status: 404, announcedLength: 10)
            case "/404": .init(status: 404, announcedLength: 10, stream: never)
            default: .init(announcedLength: 10, stream: never)
            }
        }
        try await OriginServer.run(answer: answer) { (origin) async throws in
            let loader = DataLoader.local { $0.timeout = .seconds(1) }
            for path in ["/cut", "/404"] {
                let probe = await LoadProbe.load(origin.url(path), with: loader)
                #expect(probe.failure?.code == .notFound && probe.failure?.status == 404, "\(path)")
                #expect(probe.completions == 1 && probe.chunks == 0)
            }
            let valid = await LoadProbe.load(origin.url("/200"), with: loader)
            #expect(valid.failure?.code == .timedOut, "a valid response needs its body")
        }
    }

    // MARK: - Connections and names

    @Test func aHostHasNoMoreConnectionsThanTheLimit() async throws {
        try await OriginServer.run(answer: { _ in .init(body: body) }) { (origin) async throws in
            origin.hold()
            let loader = DataLoader.local { $0.maximumHostConnections = 2 }
            let probes = (0..<6).map { _ in LoadProbe() }
            for probe in probes { probe.start(URLRequest(url: origin.url("/a")), with: loader) }
            await origin.waitForRequests("/a", count: 2)
            origin.release()
            for probe in probes { await probe.ended() }
            #expect(probes.allSatisfy { $0.error == nil })
            #expect(probes.reduce(0) { $0 + ($1.timings?.connects ?? 0) } == 2)
        }
    }

    /// The name's second lookup returns a private address: the first lookup's permission must not carry over.
    @Test func aNameThatChangesToAPrivateAddressIsRefused() async throws {
        let isChanged = Mutex(false)
        try await OriginServer.run(answer: { _ in .init(headers: [("Connection", "close")], body: body) }) {
            (origin) async throws in
            var configuration = DataLoader.Configuration()
            configuration.addressPolicy.exceptions = [try #require(IPAddress("127.0.0.1"))]
            configuration.resolve = { host in
                host == "pictures.test" ? [isChanged.withLock { $0 } ? "127.0.0.2" : "127.0.0.1"] : []
            }
            let loader = DataLoader(configuration)
            let url = try #require(URL(string: "http://pictures.test:\(origin.port)/a"))
            #expect(await LoadProbe.load(url, with: loader).data == body)
            isChanged.withLock { $0 = true }
            let probe = await LoadProbe.load(url, with: loader)
            #expect(probe.failure?.code == .forbidden && origin.total == 1)
            #expect(probe.failure?.message.contains("127.0.0.2 is loopback") == true)
        }
    }

    /// Fault: the refusal of the second address hid that the first one could not be reached, and no retry followed.
    @Test func anAddressThatCannotBeReachedIsTheErrorBeforeARefusedOne() async throws {
        var configuration = DataLoader.Configuration()
        configuration.addressPolicy.exceptions = [try #require(IPAddress("127.0.0.1"))]
        configuration.addressPolicy.ports.insert(1)
        configuration.resolve = { _ in ["127.0.0.1", "10.0.0.1"] }
        // Nothing listens on port 1.
        let url = try #require(URL(string: "http://pictures.test:1/a"))
        let probe = await LoadProbe.load(url, with: DataLoader(configuration))
        #expect(probe.failure?.code == .unreachable, "\(String(describing: probe.failure))")
    }

    @Test func theNetworkAloneIsLoadedFrom() async throws {
        for text in ["file:///etc/passwd", "data:,a", "gopher://example.org/"] {
            let probe = await LoadProbe.load(try #require(URL(string: text)), with: DataLoader.local())
            #expect(probe.failure?.code == .invalidURL, "\(text)")
        }
    }
}

/// A loopback port whose accept queue is full, with the sockets that fill it.
private func fullListener() throws -> ([Int32], Int) {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    var descriptors = [listener]
    let isFull = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
            guard bind(listener, generic, length) == 0, listen(listener, 0) == 0,
                getsockname(listener, generic, &length) == 0
            else { return false }
            for _ in 0..<4 {
                let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
                let client = socket(AF_INET, kind, 0)
                descriptors.append(client)
                _ = connect(client, generic, length)
            }
            return true
        }
    }
    guard isFull else { throw POSIXError(.EADDRNOTAVAIL) }
    return (descriptors, Int(UInt16(bigEndian: address.sin_port)))
}
