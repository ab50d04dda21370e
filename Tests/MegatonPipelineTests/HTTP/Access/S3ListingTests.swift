import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(3))) struct S3ListingTests {
    private func prefix(_ text: String) throws -> S3Prefix { try S3Prefix(try #require(URL(string: text))) }

    private func loader(_ url: URL, _ credential: Credential? = nil) -> DataLoader {
        var configuration = DataLoader.Configuration()
        configuration.urlPolicy.schemes.insert("s3")
        configuration.s3 = S3Endpoint(url: url)
        configuration.credentials = Credentials([credential].compactMap { $0 })
        return DataLoader(configuration)
    }

    private func message(_ body: () async throws -> Void) async -> String {
        do {
            try await body()
            return "no error"
        } catch {
            return (error as? ImagePipeline.Error)?.message ?? "\(error)"
        }
    }

    @Test(arguments: [
        ("s3://bucket/", "bucket", ""), ("s3://bucket/a%20b/", "bucket", "a b/"), ("S3://bucket/a/b", "bucket", "a/b"),
    ])
    func readsURLs(_ text: String, _ bucket: String, _ start: String) throws {
        let prefix = try prefix(text)
        #expect(prefix.bucket == bucket && prefix.prefix == start)
        #expect(try S3Prefix(prefix.url) == prefix)
    }

    // Fault: a prefix ended before a question mark or a hash, and other objects were processed.
    @Test(arguments: [
        "s3:///a/", "s3://Bucket/", "s3://bucket/../", "s3://bucket:80/a/", "http://bucket/a/", "s3://bucket/a#1/",
        "s3://bucket/a?b/",
    ])
    func refusesOthers(_ text: String) {
        #expect { try prefix(text) } throws: { ($0 as? ImagePipeline.Error)?.code == .invalidURL }
    }

    @Test func theQueryIsSortedAndEncoded() throws {
        let prefix = try prefix("s3://bucket/a%20b/")
        #expect(prefix.query(after: nil, count: 9) == "encoding-type=url&list-type=2&max-keys=9&prefix=a%20b%2F")
        #expect(
            prefix.query(after: "x+/=", count: 1)
                == "continuation-token=x%2B%2F%3D&encoding-type=url&list-type=2&max-keys=1&prefix=a%20b%2F"
        )
        #expect(try self.prefix("s3://bucket/").query(after: nil, count: 1).hasSuffix("max-keys=1"))
    }

    @Test func aListingHasAURLAtAnEndpoint() throws {
        let prefix = try prefix("s3://bucket/a/")
        let store = S3Endpoint(url: URL(string: "https://store.example/s3/"))
        #expect(try store.url(listing: prefix, query: "a=b").absoluteString == "https://store.example/s3/bucket?a=b")
        let aws = try S3Endpoint().url(listing: prefix, query: "a=b%2F").absoluteString
        #expect(aws == "https://bucket.s3.us-east-1.amazonaws.com/?a=b%2F")
    }

    /// With the signatures of a store that checks them.
    @Test func keysAreListedPageByPage() async throws {
        let moto = try await MotoServer.start()
        do {
            let source = try SourceRule("s3://\(MotoServer.bucket)")
            let secret = Secret(moto.secret)
            let key = Credential(sources: [source], method: .s3(keyID: moto.keyID, secret: secret, sessionToken: nil))
            let store = S3Store(loader(moto.url, key))
            let keys = ["in/a b+c.jpg", "in/d%20e.jpg", "in/f/g.png", "in/ä.jpg"]
            for key in keys + ["out/h.jpg"] {
                try await store.put(Data("x".utf8), to: try S3Location(bucket: MotoServer.bucket, key: key))
            }
            let listing = S3Listing(loader(moto.url, key), pageSize: 3)
            let prefix = try prefix("s3://\(MotoServer.bucket)/in/")
            let first = try await listing.page(of: prefix, after: nil)
            #expect(first.keys == Array(keys.prefix(3)))
            let next = try #require(first.next)
            let second = try await listing.page(of: prefix, after: next)
            #expect(second == S3Listing.Page(keys: ["in/ä.jpg"], next: nil))
            let wrong = Credential(
                sources: [source],
                method: .s3(keyID: moto.keyID, secret: Secret("wrong"), sessionToken: nil)
            )
            let refused = await message {
                _ = try await S3Listing(loader(moto.url, wrong)).page(of: prefix, after: nil)
            }
            #expect(refused.contains("cannot be listed: the store does not accept the key"), "\(refused)")
            await moto.stop()
        } catch {
            await moto.stop()
            throw error
        }
    }

    @Test(arguments: [
        (404, "NoSuchBucket", "s3://bucket/in/ cannot be listed: there is no bucket bucket."),
        (403, "AccessDenied", "needs s3:ListBucket."), (301, "PermanentRedirect", "Give it with --s3-region."),
        (403, "", "access is denied"), (400, "InvalidArgument", "cannot be listed: InvalidArgument: "),
    ])
    func aRefusalIsExplained(_ status: Int, _ code: String, _ expected: String) async throws {
        let body = code.isEmpty ? "" : "<?xml version=\"1.0\"?>\n<Error><Code>\(code)</Code></Error>"
        try await OriginServer.run(answer: { _ in .init(status: status, body: Data(body.utf8)) }) {
            (origin) async throws in
            let listing = S3Listing(loader(origin.url("")))
            let prefix = try prefix("s3://bucket/in/")
            let text = await message { _ = try await listing.page(of: prefix, after: nil) }
            #expect(text.contains(expected), "\(text)")
        }
    }

    /// Fault: a permission of a credential was asked for that was not given.
    @Test func aRequestThatWasNotSignedIsNamed() async throws {
        let body = Data("<Error><Code>AccessDenied</Code></Error>".utf8)
        let file = #"{"credentials": [{"sources": ["s3://other"], "s3": {"id": "i", "secret": "s"}}]}"#
        let other = try Credentials(json: Data(file.utf8))
        try await OriginServer.run(answer: { _ in .init(status: 403, body: body) }) { (origin) async throws in
            let prefix = try prefix("s3://bucket/in/")
            let none = S3Listing(loader(origin.url("")), credentials: Credentials())
            let unsigned = await message { _ = try await none.page(of: prefix, after: nil) }
            #expect(unsigned.contains("no credential was given"), "\(unsigned)")
            let some = S3Listing(loader(origin.url("")), credentials: other)
            let unmatched = await message { _ = try await some.page(of: prefix, after: nil) }
            #expect(unmatched.contains("no credential of the --credentials file is for s3://bucket"), "\(unmatched)")
        }
    }

    @Test func aStoreThatCannotBeReachedIsNamed() async throws {
        let listing = S3Listing(loader(try #require(URL(string: "http://127.0.0.1:1"))))
        let prefix = try prefix("s3://bucket/in/")
        let text = await message { _ = try await listing.page(of: prefix, after: nil) }
        #expect(
            text.hasPrefix("s3://bucket/in/ cannot be listed: the store http://127.0.0.1:1")
                && text.contains(" cannot be reached: "),
            "\(text)"
        )
        #expect(text.hasSuffix("the address of --s3-endpoint."), "\(text)")
    }

    /// S3 redirects with a body that has the reason.
    @Test func aRedirectIsExplained() async throws {
        let body = Data("<Error><Code>TemporaryRedirect</Code></Error>".utf8)
        let answer = OriginServer.Answer(status: 307, headers: [("Location", "http://other.test/")], body: body)
        try await OriginServer.run(answer: { _ in answer }) { (origin) async throws in
            let listing = S3Listing(loader(origin.url("")))
            let prefix = try prefix("s3://bucket/in/")
            let text = await message { _ = try await listing.page(of: prefix, after: nil) }
            #expect(text.hasSuffix("Give it with --s3-region.") && origin.total == 1, "\(text)")
        }
    }

    @Test(arguments: [
        "<ListBucketResult/><a>", "<ListBucketResult><Contents>", "", "hello", "<html></html>", "<ListBucketResult>",
        "<a><ListBucketResult/></a>",
        "<!DOCTYPE a [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><ListBucketResult>&e;</ListBucketResult><",
    ])
    func anAnswerOfAnotherKindIsNoPage(_ body: String) async throws {
        try await OriginServer.run(answer: { _ in .init(body: Data(body.utf8)) }) { (origin) async throws in
            let listing = S3Listing(loader(origin.url("")))
            let prefix = try prefix("s3://bucket/in/")
            let text = await message { _ = try await listing.page(of: prefix, after: nil) }
            #expect(text.contains("s3://bucket/in/ cannot be listed"), "\(text)")
        }
    }

    @Test func aStoreThatRepeatsItselfIsNotListedForEver() async throws {
        let body = "<ListBucketResult><NextContinuationToken>t</NextContinuationToken></ListBucketResult>"
        try await OriginServer.run(answer: { _ in .init(body: Data(body.utf8)) }) { (origin) async throws in
            let listing = S3Listing(loader(origin.url("")))
            let prefix = try prefix("s3://bucket/in/")
            #expect(try await listing.page(of: prefix, after: nil).next == "t")
            let text = await message { _ = try await listing.page(of: prefix, after: "t") }
            #expect(text.contains("again and again"), "\(text)")
        }
    }

    /// Fault: the first 1,000 keys of a store that knows only ListObjects were taken for all.
    @Test func aListingThatCannotBeContinuedIsAnError() async throws {
        let body = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"
        try await OriginServer.run(answer: { _ in .init(body: Data(body.utf8)) }) { (origin) async throws in
            let listing = S3Listing(loader(origin.url("")))
            let prefix = try prefix("s3://bucket/in/")
            let text = await message { _ = try await listing.page(of: prefix, after: nil) }
            #expect(text.contains("the store has more keys"), "\(text)")
        }
    }

    /// A URL with the query of a listing is none of an object.
    @Test func aSourceIsNeverAListing() async throws {
        try await OriginServer.run(answer: { _ in .init(body: Data("x".utf8)) }) { (origin) async throws in
            let url = try #require(URL(string: "s3://bucket/key?list-type=2"))
            let probe = await LoadProbe.load(url, with: loader(origin.url("")))
            #expect(probe.failure?.code == .invalidURL && origin.total == 0)
        }
    }
}
