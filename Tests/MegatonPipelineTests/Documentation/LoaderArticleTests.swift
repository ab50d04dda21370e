import Foundation
import Logging
import MegatonPipeline
import MegatonTestSupport
import Testing

/// Runs the code of the article Loading that needs no other library.
@Suite(.timeLimit(.minutes(2))) struct LoaderArticleTests {
    private let image = TestImage.quarters(width: 16, height: 16)
    private let configuration = {
        var configuration = DataLoader.Configuration()
        configuration.addressPolicy = AddressPolicy(allowsPrivate: true)
        return configuration
    }()

    @Test func aTokenFromTheDelegate() async throws {
        let seen = TestLog<String?>()
        try await OriginServer.run(responding: { [image] request in
            seen.append(request.headers["authorization"])
            return .image(image)
        }) { (origin) async throws in
            let loader = DataLoader(configuration)
            let tokens = ["secret"]

            let delegate = TokenDelegate(host: "127.0.0.1") { tokens[0] }
            let pipeline = ImagePipeline(delegate: delegate) {
                $0.dataLoader = loader
            }

            let elsewhere = try #require(URL(string: "http://localhost:\(origin.port)/b"))
            for url in [origin.url("/a"), elsewhere] { _ = try await pipeline.image(for: url) }
            #expect(seen.values == ["Bearer secret", nil])
        }
    }

    @Test func aDelegateOfTheLoader() async throws {
        let recorder = LogRecorder()
        let logger = Logger(label: "loads") { _ in recorder }
        try await OriginServer.run(answer: { [image] _ in .image(image) }) { (origin) async throws in
            let loader = DataLoader(configuration)
            loader.delegate = LoadLogger(logger: logger)
            let pipeline = ImagePipeline {
                $0.dataLoader = loader
            }

            _ = try await pipeline.image(for: origin.url("/a?signature=secret"))
            #expect(recorder.recorded.count == 1)
            let line = try #require(recorder.recorded.first)
            #expect(line.contains("/a") && line.contains("bytes=\(image.count) failed=false"))
            #expect(!line.contains("secret"))
            (pipeline.configuration.dataLoader as? DataLoader)?.delegate = nil
            _ = try await pipeline.image(for: origin.url("/b"))
            #expect(recorder.recorded.count == 1)
        }
    }

    @Test func aCacheInFrontOfALoader() async throws {
        let directory = try TestDirectory()
        let folder = URL(fileURLWithPath: "\(directory.path)/answers")
        let headers = [("Cache-Control", "max-age=60")]
        try await OriginServer.run(answer: { [image] _ in .image(image, headers: headers) }) { (origin) async throws in
            let cache = try DataCache(path: folder)
            let loader = CachingDataLoader(DataLoader(configuration), cache: cache)
            let pipeline = ImagePipeline {
                $0.dataLoader = loader
            }

            for _ in 0..<2 { _ = try await pipeline.image(for: origin.url("/a")) }
            #expect(origin.total == 1)
        }
    }
}
