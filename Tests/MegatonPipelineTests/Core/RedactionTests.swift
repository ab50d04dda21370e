import Foundation
import FoundationNetworking
import Logging
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline
@testable import MegatonRendering

/// Secret parts of a URL: a user, a password, the query and the fragment.
@Suite(.timeLimit(.minutes(2))) struct RedactionTests {
    private struct Foreign: Error, CustomStringConvertible {
        let description: String
    }

    private struct Refusal: ImageProcessing {
        let error: Foreign
        var identifier: String { "refusal" }

        func process(_ image: PlatformImage) -> PlatformImage? { nil }
        func process(_ container: ImageContainer, context: ImageProcessingContext) throws -> ImageContainer {
            throw error
        }
    }

    @Test(arguments: [
        ("https://host/p?page=2&size=large#top", "https://host/p?page=2&size=large#top"),
        ("https://user:secret@host/p?page=2", "https://host/p?page=2"),
        ("https://host/p?X-Amz-Signature=ab&page=2&Policy=x", "https://host/p?X-Amz-Signature=…&page=2&Policy=…"),
        ("https://host/p?%73ig=ab", "https://host/p?%73ig=…"),
        ("https://host/p?v=0123456789abcdef01234567&n=0123456789", "https://host/p?v=…&n=0123456789"),
        ("https://host/p?0123456789abcdef01234567", "https://host/p?…"),
        ("https://host/p#access_token=ab", "https://host/p#access_token=…"),
        ("https://host/p?next=https%3A%2F%2Fuser%3Asecret%40other%2F", "https://host/p?next=…"),
        (#"a "https://a:b@host/p?sig=1" and https://c@host/q."#, #"a "https://host/p?sig=…" and https://host/q."#),
        ("user@host?sig=1", "user@host?sig=1"), ("https://host/p?sig=", "https://host/p?sig="),
    ])
    func onlySecretsAreRemoved(_ text: String, _ shown: String) {
        #expect(Redaction.secrets(in: text) == shown)
        #expect(Redaction.secrets(in: shown) == shown, "a text may be redacted twice")
    }

    @Test(arguments: [
        ("https://host/p", "https://host/p"),
        ("https://user:secret@host:8443/p?X-Amz-Signature=secret&x=secret#secret", "https://host:8443/p?…"),
        ("https://secret@host", "https://host"),
        ("https://a@b:secret@host/x@2x.png", "https://host/x@2x.png"),
        ("https://host/p?secret", "https://host/p?…"),
        ("https://host/p#secret", "https://host/p?…"),
        ("https://host?secret/@x", "https://host?…"),
        ("https://proxy/https://user:secret@host/p", "https://proxy/https://host/p"),
        ("//user:secret@host/p?secret", "//host/p?…"),
        ("p?secret", "p?…"),
        ("https://host/p?…", "https://host/p?…"),
        ("https://host/p?…secret", "https://host/p?…"),
        ("data:text/plain,secret", "data:…"),
        ("", ""),
    ])
    func aURLLosesWhatMayBeSecret(_ text: String, _ expected: String) {
        #expect(Redaction.url(text) == expected)
        #expect(Redaction.url(expected) == expected)
    }

    @Test(arguments: [
        ("nothing of the kind: a@b?c#d", "nothing of the kind: a@b?c#d"),
        ("see https://user:secret@host/p?a=secret and a@b?c", "see https://host/p?… and a@b?c"),
        (#"{url: "https://host/p?a=secret", next: 1}"#, #"{url: "https://host/p?…", next: 1}"#),
        ("two: http://h/?secret\nhttp://secret@i/", "two: http://h/?…\nhttp://i/"),
        ("(redirected to https://host/p?…).", "(redirected to https://host/p?…)."),
        ("https://host/p?…, secret", "https://host/p?…, secret"),
        ("https://host/p?a=1,secret;secret)secret", "https://host/p?…"),
    ])
    func urlsWithinATextDoToo(_ text: String, _ expected: String) {
        #expect(Redaction.text(text) == expected)
        #expect(ImagePipeline.Error(.unreachable, text).message == expected)
        var error = ImagePipeline.Error(.unreachable, "")
        error.message = text
        #expect(error.message == expected)
    }

    @Test func messagesHaveALimit() {
        let limit = ImagePipeline.Error.maximumMessage
        let text = String(repeating: "x", count: limit)
        #expect(ImagePipeline.Error(.tls, text).message == text)
        #expect(ImagePipeline.Error(.tls, text + "y").message == text)
        // If the text were truncated first, the password would remain without the `@` that identifies it.
        let url = "https://user:secret" + String(repeating: "s", count: limit) + "@host/"
        #expect(ImagePipeline.Error(.tls, url).message == "https://host/")
        let long = "https://host/" + String(repeating: "p", count: limit)
        #expect(Redaction.url(long).count == Redaction.maximumURL)
    }

    @Test func requestsAreDescribedWithoutSecrets() throws {
        let url = try #require(URL(string: "https://user:secret@host/p?X-Amz-Signature=secret"))
        var request = ImageRequest(url: url)
        #expect("\(request)".contains("https://host/p?…"))
        #expect(!"\(request)".contains("secret"))
        request.imageID = url.absoluteString
        #expect(!"\(request)".contains("secret"))
        #expect(!"\(ImageRequest(id: url.absoluteString, data: { Data() }))".contains("secret"))
        #expect("\(ImageRequest(id: "one?", data: { Data() }))".contains("one?"))
    }

    // MARK: - Failures

    private static let query = "X-Amz-Signature=secret"

    private static let large = String(repeating: "a", count: 1000)

    /// The response to each path of the test origin.
    @Sendable private static func answer(to path: String) -> OriginServer.Answer {
        switch path.prefix(while: { $0 != "?" }) {
        case "/missing": .init(status: 404, headers: [("Content-Type", "text/html")])
        case "/broken": .init(status: 500)
        case "/part": .init(status: 206, body: TestPipeline.png)
        case "/gone": .init(status: 204)
        case "/304": .init(status: 304)
        case "/empty": .init()
        case "/loop": .init(status: 302, headers: [("Location", "/loop?\(query)")])
        case "/user": .init(status: 302, headers: [("Location", "http://user:secret@127.0.0.1/p?\(query)")])
        case "/ftp": .init(status: 302, headers: [("Location", "ftp://user:secret@127.0.0.1/p?\(query)")])
        case "/refused": .init(status: 302, headers: [("Location", "http://127.0.0.1:1/p?\(query)")])
        case "/cut": .init(body: TestPipeline.png, announcedLength: TestPipeline.png.count + 10)
        case "/large": .init(body: Data(count: 2000))
        case "/header": .init(stream: OriginStream(piece: Data("X-A: \(large)\r\n".utf8), isHeader: true))
        case "/page": .init(body: Data("<html>".utf8))
        default: .image(TestPipeline.png)
        }
    }

    private func expectNoSecret(_ error: ImagePipeline.Error?, _ log: LogRecorder, _ what: String) throws {
        let error = try #require(error, "\(what) did not fail")
        let json = String(decoding: try JSONEncoder().encode(error), as: UTF8.self)
        for text in [error.message, error.description, String(reflecting: error), json, log.recorded.joined()] {
            #expect(!text.contains("secret"), "\(what): \(text)")
        }
        var dumped = ""
        dump(error, to: &dumped)
        #expect(!dumped.contains("secret"), "\(what)")
    }

    @Test(arguments: [
        "missing", "broken", "part", "gone", "304", "empty", "loop", "user", "ftp", "refused", "cut", "large",
        "header", "page",
    ])
    func noFailureOfAnOriginRevealsASecret(_ kind: String) async throws {
        let log = LogRecorder()
        let pipeline = TestPipeline.make(DataLoader.local { $0.maximumBodySize = 1000 }) {
            $0.logger = Logger(label: "test") { _ in log }
        }
        try await OriginServer.run(answer: Self.answer(to:)) { (origin) async throws in
            let url = origin.url("/\(kind)?\(Self.query)")
            let error = await TestPipeline.failure { try await pipeline.image(for: url) }
            try expectNoSecret(error, log, kind)
            if kind != "empty" {
                #expect(error?.stage != nil && error?.url == origin.url("/\(kind)").absoluteString, "\(error as Any)")
            }
            if kind == "missing" { #expect(error?.contentType == "text/html" && error?.status == 404) }
            let rendition = await TestPipeline.failure {
                try await pipeline.renditions([Rendition(width: 4)], for: ImageRequest(url: url))
            }
            try expectNoSecret(rendition, log, kind)
        }
    }

    @Test(arguments: [
        "https://user:secret@host/p?X-Amz-Signature=secret", "ftp://user:secret@host/p?X-Amz-Signature=secret",
        "//user:secret@host/p?X-Amz-Signature=secret", "https:///p?X-Amz-Signature=secret",
        "https://evil.test/p?X-Amz-Signature=secret", "file://user:secret@host/p?X-Amz-Signature=secret",
        "file:///nowhere/p?X-Amz-Signature=secret", "s3://user:secret@host/p?X-Amz-Signature=secret",
        "http://127.0.0.1/p?X-Amz-Signature=secret", "http://[fe80::1%25en0]/p?X-Amz-Signature=secret",
    ])
    func noRefusalRevealsASecret(_ text: String) async throws {
        let log = LogRecorder()
        let url = try #require(URL(string: text))
        let sources = try [SourceRule("host"), SourceRule("127.0.0.1:*")]
        let pipeline = TestPipeline.make(DataLoader()) { configuration in
            configuration.urlPolicy.sources = sources
            configuration.urlPolicy.schemes.insert("s3")
            configuration.logger = Logger(label: "test") { _ in log }
        }
        try expectNoSecret(await TestPipeline.failure { try await pipeline.image(for: url) }, log, text)
        let kept = ImageRequest(url: url, options: .returnCacheDataDontLoad)
        try expectNoSecret(await TestPipeline.failure { try await pipeline.data(for: kept) }, log, text)
    }

    @Test func noErrorOfCustomCodeRevealsASecret() async throws {
        let text = "https://user:secret@host/p?\(Self.query)"
        let foreign = Foreign(description: "cannot load <\(text)>, said \(text)")
        let log = LogRecorder()
        let url = TestPipeline.url("p?\(Self.query)")
        let pipeline = TestPipeline.make(ScriptedLoader([.init(error: foreign)])) {
            $0.logger = Logger(label: "test") { _ in log }
        }
        try expectNoSecret(await TestPipeline.failure { try await pipeline.image(for: url) }, log, "loader")
        let closure = ImageRequest(id: text, data: { throw foreign })
        try expectNoSecret(await TestPipeline.failure { try await pipeline.image(for: closure) }, log, "closure")
        let picture = ImageRequest(id: text, image: { throw foreign })
        try expectNoSecret(await TestPipeline.failure { try await pipeline.image(for: picture) }, log, "picture")
        let empty = ImageRequest(id: text, data: { Data() })
        try expectNoSecret(await TestPipeline.failure { try await pipeline.image(for: empty) }, log, "empty")
        let processed = ImageRequest(
            id: text,
            image: { try TestPipeline.container() },
            processors: [Refusal(error: foreign)]
        )
        try expectNoSecret(await TestPipeline.failure { try await pipeline.image(for: processed) }, log, "processor")
    }

    @Test func noCancellationRevealsASecret() async throws {
        let log = LogRecorder()
        let loader = ScriptedLoader([.init(isEndless: true)])
        let delegate = TestDelegate()
        let pipeline = TestPipeline.make(loader, delegate: delegate) { $0.logger = Logger(label: "test") { _ in log } }
        let url = TestPipeline.url("p?\(Self.query)")
        let load = Task { await TestPipeline.failure { try await pipeline.image(for: url) } }
        await delegate.loads.wait(for: 1)
        load.cancel()
        try expectNoSecret(await load.value, log, "cancelled")
    }
}
