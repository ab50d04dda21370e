import Foundation
import FoundationNetworking
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonHTTP
@testable import MegatonPipeline

/// `ftp:`, once it is enabled, from a real server.
@Suite(.timeLimit(.minutes(2))) struct FTPTests {
    private static let image = TestImage.quarters(width: 300, height: 200)

    private func pipeline(
        schemes: Set<String> = ["ftp"],
        _ change: (inout DataLoader.Configuration) -> Void = { _ in }
    ) -> ImagePipeline {
        var loader = DataLoader.Configuration()
        loader.urlPolicy = URLPolicy(schemes: schemes)
        loader.addressPolicy = AddressPolicy(allowsPrivate: true)
        change(&loader)
        return TestPipeline.make(DataLoader(loader)) { $0.urlPolicy = loader.urlPolicy }
    }

    @Test func anImageIsLoaded() async throws {
        let server = try await VsftpdProcess.start(files: ["a/b.png": Self.image])
        let pipeline = self.pipeline()
        // The second request uses the same control connection.
        for _ in 0..<2 {
            let (data, response) = try await pipeline.data(for: server.url("/a/b.png"))
            #expect(data == Self.image && response?.expectedContentLength == Int64(Self.image.count))
        }
        #expect(try await pipeline.image(for: server.url("/a/b.png")).size == PixelSize(width: 300, height: 200))
    }

    /// The port needs enabling as well, as the article says.
    @Test func thePortIsASwitchToo() async throws {
        var configuration = DataLoader.Configuration()
        configuration.urlPolicy.schemes.insert("ftp")
        configuration.addressPolicy.ports.insert(21)
        let pipeline = ImagePipeline {
            $0.dataLoader = DataLoader(configuration)
            $0.urlPolicy = configuration.urlPolicy
        }
        // An address for documentation (RFC 5737) that the address policy refuses even with the port allowed: nothing
        // is sent.
        let url = try #require(URL(string: "ftp://192.0.2.1/a.png"))
        #expect(await TestPipeline.code { try await pipeline.data(for: url) } == .forbidden)
        #expect(configuration.addressPolicy.ports.contains(21))
    }

    @Test func itIsOffByDefault() async throws {
        let url = try #require(URL(string: "ftp://example.com/a.png"))
        #expect(await TestPipeline.code { try await ImagePipeline().data(for: url) } == .forbidden)
        #expect(
            await TestPipeline.code { try await DataLoader().data(for: URLRequest(url: url), limit: 1) } == .forbidden
        )
    }

    @Test func whatIsNotThereIsNotFound() async throws {
        let server = try await VsftpdProcess.start(files: ["a.png": Self.image])
        #expect(await TestPipeline.code { try await pipeline().data(for: server.url("/b.png")) } == .notFound)
        #expect(await TestPipeline.code { try await pipeline().data(for: server.url("/c/b.png")) } == .accessDenied)
    }

    /// The server accepts anonymous logins only.
    @Test func aRefusedLoginIsAccessDenied() async throws {
        let server = try await VsftpdProcess.start(files: ["a.png": Self.image])
        let rule = try SourceRule("ftp://127.0.0.1:\(server.port)/")
        let credential = Credential(sources: [rule], method: .basic(user: "somebody", password: Secret("secret")))
        let pipeline = self.pipeline { $0.credentials = Credentials([credential]) }
        #expect(await TestPipeline.code { try await pipeline.data(for: server.url("/a.png")) } == .accessDenied)
    }

    @Test(arguments: ["/", "/a/", "/a.png;type=a", ""]) func onlyFilesAreLoaded(_ path: String) async throws {
        let url = try #require(URL(string: "ftp://example.com\(path)"))
        #expect(await TestPipeline.code { try await pipeline().data(for: url) } == .invalidURL)
    }

    /// The address policy and the limit on bodies apply to ftp too.
    @Test func limitsHold() async throws {
        let server = try await VsftpdProcess.start(files: ["a.png": Self.image])
        let strict = pipeline { $0.addressPolicy = AddressPolicy() }
        #expect(await TestPipeline.code { try await strict.data(for: server.url("/a.png")) } == .forbidden)
        let narrow = pipeline { $0.maximumBodySize = Self.image.count - 1 }
        #expect(await TestPipeline.code { try await narrow.data(for: server.url("/a.png")) } == .dataTooLarge)
        let exact = pipeline { $0.maximumBodySize = Self.image.count }
        #expect(try await exact.data(for: server.url("/a.png")).data == Self.image)
    }

    /// A redirect must not lead from http to another protocol.
    @Test func noRedirectLeadsThere() async throws {
        let answer = OriginServer.Answer(status: 302, headers: [("Location", "ftp://127.0.0.1/a.png")])
        try await OriginServer.run(answer: { _ in answer }) { (origin) async throws in
            let pipeline = self.pipeline(schemes: ["http", "ftp"])
            #expect(await TestPipeline.code { try await pipeline.data(for: origin.url("/")) } == .invalidURL)
        }
    }
}
