import Foundation
import FoundationNetworking
import GRDB
import MegatonPipeline
import MegatonPipelineTesting
import MegatonPlugins
import Testing

/// Runs the code of the article Loading.
@Suite(.timeLimit(.minutes(2))) struct LoadingArticleTests {
    @Test func aPipelineOfOtherParts() async throws {
        let directory = try TestDirectory()
        try await Self.withImage { (origin, url) async throws in
            let path = "\(directory.path)/images.sqlite"

            let cache = try GRDBCache(DatabasePool(path: path))
            let pipeline = ImagePipeline {
                $0.dataLoader = AsyncHTTPClientLoader()
                $0.dataCache = cache
            }
            let small = Rendition(width: 320, format: .webp)
            let image = try await pipeline.renditions([small], for: ImageRequest(url: url))[0]

            #expect(image.size == PixelSize(width: 320, height: 240) && origin.total == 1)
        }
    }

    @Test func aLoaderWithLimitsOfItsOwn() async throws {
        try await Self.withImage { (origin, url) async throws in
            var configuration = DataLoader.Configuration()
            configuration.timeout = .seconds(60)
            configuration.maximumBodySize = 200 * 1024 * 1024
            configuration.addressPolicy = AddressPolicy(allowsPrivate: true)
            let loader = DataLoader(configuration)
            let pipeline = ImagePipeline { $0.dataLoader = loader }

            _ = try await pipeline.renditions([Rendition(width: 32)], for: ImageRequest(url: url))
            #expect(origin.total == 1)
        }
    }

    @Test func aDecorator() async throws {
        let seen = Notes()
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(responding: { request in
            seen.note(request.headers["authorization"])
            return .image(image)
        }) { (origin) async throws in
            let (host, token) = ("127.0.0.1", "secret")

            let pipeline = ImagePipeline {
                $0.dataLoader = AuthorizingDataLoader(loader: AsyncHTTPClientLoader(), host: host, token: { token })
            }

            let elsewhere = try #require(URL(string: "http://localhost:\(origin.port)/b"))
            for url in [origin.url("/a"), elsewhere] {
                _ = try await pipeline.renditions([Rendition(width: 32)], for: ImageRequest(url: url))
            }
            #expect(seen.values == ["Bearer secret", nil])
        }
    }

    @Test(arguments: DataLoadingConformance.Check.allCases)
    func aDecoratorConforms(_ check: DataLoadingConformance.Check) async throws {
        try await OriginServer.runConformance { (origin) async throws in
            var configuration = DataLoader.Configuration()
            configuration.addressPolicy = AddressPolicy(allowsPrivate: true)
            let loader = AuthorizingDataLoader(loader: DataLoader(configuration), host: "127.0.0.1", token: { "" })
            try await DataLoadingConformance(loader, origin: origin).run(check)
        }
    }

    @Test func aRequestWithHeaderFieldsOfItsOwn() async throws {
        let seen = Notes()
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(responding: { request in
            seen.note(request.headers["authorization"])
            return .image(image)
        }) { (origin) async throws in
            let pipeline = ImagePipeline { $0.dataLoader = AsyncHTTPClientLoader() }
            let (url, token) = (origin.url("/a"), "secret")

            var request = ImageRequest(url: url)
            request.headers = ["Authorization": "Bearer \(token)"]
            request.credentialScope = "alice"

            _ = try await pipeline.renditions([Rendition(width: 32)], for: request)
            #expect(seen.values == ["Bearer secret"])
        }
    }

    @Test func aCredentialByItsName() async throws {
        let seen = Notes()
        let image = TestImage.quarters(width: 64, height: 64)
        try await OriginServer.run(responding: { request in
            seen.note(request.headers["authorization"])
            return .image(image, headers: [("Cache-Control", "max-age=60")])
        }) { (origin) async throws in
            let (url, token, source) = (origin.url("/a"), "secret", "http://127.0.0.1:*")
            var configuration = DataLoader.Configuration()
            configuration.addressPolicy = AddressPolicy(allowsPrivate: true)

            let partner = Credential(
                name: "partner",
                sources: [try SourceRule(source)],
                method: .bearer(Secret(token))
            )
            configuration.credentials = Credentials([partner])

            let loader = DataLoader(configuration)
            let pipeline = ImagePipeline {
                $0.dataLoader = loader
                $0.dataCache = MemoryDataCache()
            }

            var urlRequest = URLRequest(url: url)
            urlRequest.credentialName = "partner"
            var request = ImageRequest(urlRequest: urlRequest)
            request.credentialScope = "partner"

            // A response for one request is not in the cache for the other.
            for request in [request, ImageRequest(url: url), request] {
                _ = try await pipeline.renditions([Rendition(width: 32)], for: request)
            }
            #expect(seen.values == ["Bearer secret", nil])
        }
    }

    private static func withImage(_ body: (OriginServer, URL) async throws -> Void) async throws {
        let image = TestImage.quarters(width: 640, height: 480)
        try await OriginServer.run(answer: { _ in .image(image) }) { (origin) async throws in
            try await body(origin, origin.url("/image.png"))
        }
    }
}
