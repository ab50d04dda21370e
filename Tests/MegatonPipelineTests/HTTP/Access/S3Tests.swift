import Foundation
import FoundationNetworking
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

@Suite struct S3LocationTests {
    @Test(arguments: [
        ("s3://bucket/key", "bucket", "key"), ("s3://my.bucket-1/a/b%20c/d.jpg", "my.bucket-1", "a/b c/d.jpg"),
        ("S3://bucket/%C3%A4", "bucket", "ä"), ("s3://bucket//a", "bucket", "/a"), ("s3://bucket/a/", "bucket", "a/"),
    ])
    func readsURLs(_ text: String, _ bucket: String, _ key: String) throws {
        let location = try S3Location(try #require(URL(string: text)))
        #expect(location.bucket == bucket && location.key == key)
        #expect(try S3Location(location.url) == location)
    }

    @Test(arguments: [
        "s3://bucket", "s3://bucket/", "s3:///key", "s3:key", "s3://Bucket/key", "s3://bu/key", "s3://-..-/key",
        "s3://bucket/../key", "s3://bucket/a/%2e%2e/key", "s3://bucket/./key", "s3://bucket/a%00b",
        "s3://bucket:80/key",
        "http://bucket/key", "s3://evil.test%2fx/key",
    ])
    func refusesOthers(_ text: String) throws {
        guard let url = URL(string: text) else { return }
        #expect { try S3Location(url) } throws: { ($0 as? ImagePipeline.Error)?.code == .invalidURL }
    }

    @Test(arguments: [
        (S3Endpoint(), "https://bucket.s3.us-east-1.amazonaws.com/a%20b/c"),
        (S3Endpoint(region: "eu-west-1"), "https://bucket.s3.eu-west-1.amazonaws.com/a%20b/c"),
        (S3Endpoint(usesPathStyle: true), "https://s3.us-east-1.amazonaws.com/bucket/a%20b/c"),
        (S3Endpoint(url: URL(string: "http://127.0.0.1:9000")), "http://127.0.0.1:9000/bucket/a%20b/c"),
        (S3Endpoint(url: URL(string: "https://store.example/s3/")), "https://store.example/s3/bucket/a%20b/c"),
        (
            S3Endpoint(url: URL(string: "https://store.example:9000"), usesPathStyle: false),
            "https://bucket.store.example:9000/a%20b/c"
        ),
    ])
    func hasAURLAtAnEndpoint(_ endpoint: S3Endpoint, _ url: String) throws {
        let location = try S3Location(bucket: "bucket", key: "a b/c")
        #expect(try endpoint.url(of: location).absoluteString == url)
    }

    @Test func aBucketWithDotsIsPartOfThePath() throws {
        let location = try S3Location(bucket: "my.bucket", key: "k")
        #expect(try S3Endpoint().url(of: location).absoluteString == "https://s3.us-east-1.amazonaws.com/my.bucket/k")
    }

    /// Fault: a slash before a combining mark is another character of Swift, and hid the dots.
    @Test(arguments: ["a/../b", "..", "a/../\u{301}b", "./\u{301}b"])
    func aKeyThatWouldBecomeAnotherOneIsRefused(_ key: String) {
        #expect(throws: ImagePipeline.Error.self) { try S3Location(bucket: "bucket", key: key) }
    }

    @Test(arguments: ["ftp://store.example", "https://user:pw@store.example", "store.example"])
    func anEndpointIsAWebAddress(_ text: String) throws {
        let location = try S3Location(bucket: "bucket", key: "k")
        #expect(throws: ImagePipeline.Error.self) { try S3Endpoint(url: URL(string: text)).url(of: location) }
    }

    @Test func theSchemeMustBeAllowed() async throws {
        let probe = await LoadProbe.load(try S3Location(bucket: "bucket", key: "k").url, with: DataLoader())
        #expect(probe.failure?.code == .forbidden && probe.failure?.message.contains("s3") == true)
    }

    @Test func anEndpointThatRedirectsIsNotFollowed() async throws {
        try await OriginServer.run(answer: { _ in .init(status: 307, headers: [("Location", "/other")]) }) {
            (origin) async throws in
            let loader = DataLoader.local {
                $0.urlPolicy.schemes.insert("s3")
                $0.s3 = S3Endpoint(url: origin.url(""))
            }
            let probe = await LoadProbe.load(try S3Location(bucket: "bucket", key: "k").url, with: loader)
            #expect(probe.failure?.status == 307 && origin.total == 1)
        }
    }

    /// Fault: the endpoint's address is exempt from the address policy, and libcurl opens no socket if it can reuse a
    /// connection. So after a load from the endpoint, a source that named its host could use the connection too.
    @Test func aConnectionToTheEndpointIsForItsObjectsOnly() async throws {
        try await OriginServer.run(answer: { _ in .init(body: Data("x".utf8)) }) { (origin) async throws in
            var configuration = DataLoader.Configuration()
            configuration.urlPolicy.schemes.insert("s3")
            configuration.s3 = S3Endpoint(url: origin.url(""))
            let loader = DataLoader(configuration)
            let object = try S3Location(bucket: "bucket", key: "k").url
            #expect(await LoadProbe.load(object, with: loader).error == nil)
            let probe = await LoadProbe.load(origin.url("/admin"), with: loader)
            #expect(probe.failure?.code == .forbidden && probe.failure?.message.contains("loopback") == true)
            #expect(origin.count("/admin") == 0)
            let again = await LoadProbe.load(object, with: loader)
            #expect(again.error == nil && origin.total == 2)
        }
    }
}

@Suite(.timeLimit(.minutes(3))) struct S3Tests {
    private func loader(
        _ moto: MotoServer,
        bucket: String = MotoServer.bucket,
        secret: String? = nil,
        isSigned: Bool = true
    ) throws -> DataLoader {
        var configuration = DataLoader.Configuration()
        configuration.urlPolicy.schemes.insert("s3")
        configuration.s3 = S3Endpoint(url: moto.url)
        if isSigned {
            configuration.credentials = Credentials([
                Credential(
                    sources: [try SourceRule("s3://\(bucket)")],
                    method: .s3(keyID: moto.keyID, secret: Secret(secret ?? moto.secret), sessionToken: nil)
                )
            ])
        }
        return DataLoader(configuration)
    }

    /// One server for all: it takes seconds to start.
    @Test func aStoredObjectCanBeRead() async throws {
        let moto = try await MotoServer.start()
        do {
            try await roundTrips(moto)
            try await largeObject(moto)
            try await parts(moto)
            try await upload(moto)
            try await strangers(moto)
            await moto.stop()
        } catch let error as ImageError {
            await moto.stop()
            Issue.record("\(error) \(String(describing: error.excerpt))")
        }
    }

    private func roundTrips(_ moto: MotoServer) async throws {
        let loader = try loader(moto)
        let store = S3Store(loader)
        for key in ["a.jpg", "in/some/folder/b c~1_2.jpg", "~0-9_.Z"] {
            let location = try S3Location(bucket: MotoServer.bucket, key: key)
            let picture = TestImage.quarters(width: 32, height: 32)
            try await store.put(picture, to: location, contentType: "image/png")
            let probe = await LoadProbe.load(location.url, with: loader)
            #expect(probe.data == picture, "\(key): \(String(describing: probe.error))")
            #expect(probe.response?.mimeType == "image/png")
            try await store.put(Data("second".utf8), to: location)
            #expect(await LoadProbe.load(location.url, with: loader).data == Data("second".utf8))
        }
        let missing = try S3Location(bucket: MotoServer.bucket, key: "missing")
        #expect(await LoadProbe.load(missing.url, with: loader).failure?.code == .notFound)
    }

    private func largeObject(_ moto: MotoServer) async throws {
        let loader = try loader(moto)
        let data = Data((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        let location = try S3Location(bucket: MotoServer.bucket, key: "large")
        try await S3Store(loader).put(data, to: location)
        #expect(await LoadProbe.load(location.url, with: loader).data == data)
    }

    private func parts(_ moto: MotoServer) async throws {
        let loader = try loader(moto)
        let location = try S3Location(bucket: MotoServer.bucket, key: "part")
        try await S3Store(loader).put(Data("0123456789".utf8), to: location)
        var request = URLRequest(url: location.url)
        request.setValue("bytes=4-", forHTTPHeaderField: "Range")
        let part = await LoadProbe.load(request, with: loader)
        #expect(part.data == Data("456789".utf8) && part.response?.statusCode == 206)
        let etag = try #require(part.response?.value(forHTTPHeaderField: "ETag"))
        request = URLRequest(url: location.url)
        request.setValue(etag, forHTTPHeaderField: "If-None-Match")
        #expect(await LoadProbe.load(request, with: loader).response?.statusCode == 304)
    }

    /// In parts, as a request would be too large.
    private func upload(_ moto: MotoServer) async throws {
        let loader = try loader(moto)
        let store = S3Store(loader)
        let location = try S3Location(bucket: MotoServer.bucket, key: "parts/b c+d.webp")
        #expect(try await store.lookup(location) == .absent)
        let data = Data((0..<S3Store.singleLimit + 12345).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 12) })
        let (sha256, version) = (String(repeating: "5a", count: 32), "1000.5 5a")
        func object(_ data: Data) -> S3Store.Object {
            S3Store.Object(data, at: location, contentType: "image/webp", sha256: sha256, version: version)
        }
        try await store.write(object(data), if: .absent)
        #expect(await LoadProbe.load(location.url, with: loader).data == data)
        guard case .found(let found) = try await store.lookup(location) else {
            Issue.record("the object is not found")
            return
        }
        #expect(found.size == data.count && found.contentType == "image/webp")
        #expect(found.sha256 == sha256 && found.version == version)
        let tag = try #require(found.entityTag)
        for condition in [S3Store.Condition.absent, .unchanged("\"0\"")] {
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await store.write(object(Data("x".utf8)), if: condition)
            }
            #expect(error?.status == 412, "\(condition)")
        }
        try await store.write(object(Data("x".utf8)), if: .unchanged(tag))
        #expect(await LoadProbe.load(location.url, with: loader).data == Data("x".utf8))
        let nowhere = try S3Location(bucket: "no-such-bucket", key: "k")
        let stranger = S3Store(try self.loader(moto, bucket: nowhere.bucket))
        let error = await #expect(throws: ImagePipeline.Error.self) {
            try await stranger.write(S3Store.Object(Data("x".utf8), at: nowhere, contentType: "a/b"), if: .always)
        }
        let explained = stranger.explained(try #require(error), nowhere)
        #expect(explained.code == .outputFailed && !explained.isRetryable, "\(explained)")
    }

    /// Fails only if the server checks signatures, so it proves that the ones above were checked.
    private func strangers(_ moto: MotoServer) async throws {
        let location = try S3Location(bucket: MotoServer.bucket, key: "a.jpg")
        for stranger in [try loader(moto, secret: "wrong"), try loader(moto, isSigned: false)] {
            let probe = await LoadProbe.load(location.url, with: stranger)
            #expect(probe.failure?.code == .accessDenied, "\(String(describing: probe.error))")
            await #expect(throws: ImagePipeline.Error.self) {
                try await S3Store(stranger).put(Data("x".utf8), to: location)
            }
        }
    }

    /// Fault: the query was dropped, and the newest version was used for another one.
    @Test(arguments: ["s3://bucket/a.jpg?versionId=1", "s3://bucket/a.jpg?", "s3://bucket/b#2.jpg", "s3://bucket/b#"])
    func aQueryOrAFragmentIsRefused(_ text: String) throws {
        let url = try #require(URL(string: text))
        let error = #expect(throws: ImagePipeline.Error.self) { try S3Location(url) }
        #expect(error?.code == .invalidURL && error?.message.contains("? is written as %3F") == true)
    }

    /// Fault: the message had the status alone, though the store had named the reason.
    @Test(arguments: [
        ("SignatureDoesNotMatch", 403, "Check id and secret in the --credentials file."),
        ("RequestTimeTooSkewed", 403, "Synchronize it."), ("NoSuchBucket", 404, "there is no bucket bucket. Check"),
        ("PermanentRedirect", 301, "Give it with --s3-region."),
        ("AccessDenied", 403, "access is denied: no credential was given"),
        ("NoSuchKey", 404, "answered 404, application/xml."),
    ]) func theStoreNamesTheReason(_ code: String, _ status: Int, _ words: String) async throws {
        let body = Data("<Error><Code>\(code)</Code><Message>x</Message></Error>".utf8)
        try await OriginServer.run(answer: { _ in
            .init(status: status, headers: [("Content-Type", "application/xml")], body: body)
        }) { (origin) async throws in
            var loader = DataLoader.Configuration()
            loader.s3 = S3Endpoint(url: origin.url(""))
            loader.urlPolicy.schemes.insert("s3")
            var configuration = ImagePipeline.Configuration(dataLoader: DataLoader(loader))
            configuration.urlPolicy = loader.urlPolicy
            let request = ImageRequest(url: try S3Location(bucket: "bucket", key: "a").url)
            let pipeline = ImagePipeline(configuration: configuration)
            let error = await #expect(throws: ImagePipeline.Error.self) { try await pipeline.data(for: request) }
            #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
        }
    }
}
