import Foundation
import MegatonPipeline
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCluster

/// Outputs in S3: the requests that are sent, and the errors that are reported. The answers are those of a store; real
/// signatures are tested with one that checks them.
@Suite(.timeLimit(.minutes(2))) struct ObjectOutputTests {
    /// Objects by path, and the requests so far.
    private final class Store: Sendable {
        struct State {
            var requests: [String] = []
            var objects: [String: [(String, String)]] = [:]
            /// Answers to writes, in the place of the usual ones.
            var failures: [OriginServer.Answer] = []
        }

        let state = Mutex(State())

        var requests: [String] { state.withLock { $0.requests } }
        var writes: Int { requests.count { !$0.hasPrefix("HEAD") } }

        func fail(_ status: Int, _ code: String) {
            let body = Data("<Error><Code>\(code)</Code></Error>".utf8)
            state.withLock { $0.failures.append(.init(status: status, body: body)) }
        }

        func answer(_ request: OriginServer.Request) -> OriginServer.Answer {
            state.withLock { state in
                let path = String(request.path.prefix { $0 != "?" })
                state.requests.append("\(request.method) \(request.path)")
                if request.method == "HEAD" {
                    guard let fields = state.objects[path] else { return .init(status: 404) }
                    return .init(headers: fields)
                }
                if !state.failures.isEmpty { return state.failures.removeFirst() }
                if request.headers["if-none-match"] == "*", state.objects[path] != nil { return .init(status: 412) }
                let query = String(request.path.dropFirst(path.count))
                if query == "?uploads=" { return .init(body: Data("<UploadId>u/1</UploadId>".utf8)) }
                if query.hasPrefix("?partNumber") { return .init(headers: [("ETag", "\"e\"")]) }
                if request.method == "DELETE" { return .init(status: 204) }
                state.objects[path] = [
                    ("Content-Type", request.headers["content-type"] ?? ""),
                    ("x-amz-meta-sha256", request.headers["x-amz-meta-sha256"] ?? ""),
                ]
                return .init(body: Data("<CompleteMultipartUploadResult/>".utf8))
            }
        }
    }

    private static func object(_ key: String, _ data: Data) throws -> ObjectOutput.Object {
        ObjectOutput.Object(
            location: try S3Location(bucket: "thumbs", key: key),
            data: data,
            format: .webp,
            sha256: Checksum.sha256(data)
        )
    }

    private static func run(_ body: (ObjectOutput, Store) async throws -> Void) async throws {
        let store = Store()
        try await OriginServer.run(responding: { store.answer($0) }) { (origin) async throws in
            var configuration = DataLoader.Configuration()
            configuration.urlPolicy.schemes = ["s3"]
            configuration.s3 = S3Endpoint(url: origin.url(""))
            let buckets = [try OutputBucket("thumbs/a"), try OutputBucket("other")]
            try await body(ObjectOutput(store: S3Store(DataLoader(configuration)), buckets: buckets), store)
        }
    }

    @Test func anEqualObjectIsNotWrittenAgain() async throws {
        try await Self.run { output, store in
            let objects = [try Self.object("a/1 x.webp", Data("one".utf8)), try Self.object("a/2", Data("two".utf8))]
            try await output.write(objects, replacing: .images, source: nil)
            #expect(
                store.requests == [
                    "HEAD /thumbs/a/1%20x.webp", "HEAD /thumbs/a/2", "PUT /thumbs/a/1%20x.webp", "PUT /thumbs/a/2",
                ]
            )
            try await output.write(objects, replacing: .nothing, source: nil)
            #expect(store.writes == 2)
            let changed = [objects[0], try Self.object("a/2", Data("2".utf8))]
            try await output.write(changed, replacing: .images, source: nil)
            #expect(store.writes == 3 && store.requests.last == "PUT /thumbs/a/2")
        }
    }

    @Test func anObjectIsReplacedAsTheJobSays() async throws {
        try await Self.run { output, store in
            store.state.withLock { $0.objects["/thumbs/a/text"] = [("Content-Type", "text/plain")] }
            let object = try Self.object("a/text", Data("new".utf8))
            for replacement in [Job.Replacement.images, .nothing] {
                let error = await #expect(throws: ImagePipeline.Error.self) {
                    try await output.write([object], replacing: replacement, source: nil)
                }
                #expect(error?.code == .outputExists && error?.isRetryable == false)
            }
            #expect(store.writes == 0)
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await output.write([object], replacing: .all, source: object.location)
            }
            #expect(error?.message.contains("is the source of the job") == true)
            try await output.write([object], replacing: .all, source: nil)
            #expect(store.writes == 1)
        }
    }

    @Test(arguments: ["a2/x", "x", "a"]) func otherKeysAreForbidden(_ key: String) async throws {
        try await Self.run { output, store in
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await output.write([try Self.object(key, Data())], replacing: .all, source: nil)
            }
            #expect(error?.code == .forbidden && error?.message.contains("--allow-bucket") == true)
            #expect(store.requests.isEmpty)
        }
    }

    @Test(arguments: [
        (503, "SlowDown", ImagePipeline.Error.Code.outputFailed, true, "SlowDown"),
        (429, "TooManyRequests", .outputFailed, true, "TooManyRequests"),
        (500, "InternalError", .outputFailed, true, "InternalError"),
        (409, "ConditionalRequestConflict", .outputFailed, true, "Conditional"),
        (403, "AccessDenied", .outputFailed, false, "needs s3:PutObject"),
        (404, "NoSuchBucket", .outputFailed, false, "there is no bucket thumbs"),
        (412, "PreconditionFailed", .outputExists, false, "may not replace it"),
    ])
    func anErrorOfTheStoreIsReported(
        _ status: Int,
        _ code: String,
        _ expected: ImagePipeline.Error.Code,
        _ isRetryable: Bool,
        _ words: String
    ) async throws {
        try await Self.run { output, store in
            store.fail(status, code)
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await output.write([try Self.object("a/x", Data("x".utf8))], replacing: .all, source: nil)
            }
            #expect(error?.code == expected && error?.isRetryable == isRetryable, "\(String(describing: error))")
            #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
            #expect(error?.message.contains("s3://thumbs/a/x") == true, "\(error?.message ?? "")")
        }
    }

    @Test func aLargeObjectIsWrittenInParts() async throws {
        try await Self.run { output, store in
            let large = try Self.object("a/large", Data(count: S3Store.singleLimit + 1))
            try await output.write([large], replacing: .all, source: nil)
            let id = "uploadId=u%2F1"
            let parts = (1...3).map { "PUT /thumbs/a/large?partNumber=\($0)&\(id)" }
            #expect(
                store.requests == ["HEAD /thumbs/a/large", "POST /thumbs/a/large?uploads="] + parts
                    + ["POST /thumbs/a/large?\(id)"]
            )
        }
    }

    @Test func thePartsOfAFailedUploadAreDeleted() async throws {
        try await Self.run { output, store in
            store.state.withLock { $0.failures = [.init(body: Data("<UploadId>7</UploadId>".utf8))] }
            store.fail(403, "AccessDenied")
            let large = try Self.object("a/large", Data(count: S3Store.singleLimit + 1))
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await output.write([large], replacing: .all, source: nil)
            }
            #expect(error?.isRetryable == false)
            #expect(store.requests.last == "DELETE /thumbs/a/large?uploadId=7", "\(store.requests)")
        }
    }

    @Test(arguments: ["s3://thumbs/{path}/{stem}.{ext}", "s3://thumbs//{path}/./{stem}.{ext}"])
    func anOutputMayBeAnObject(_ output: String) throws {
        let template = try OutputTemplate(output)
        let path = template.path(
            source: "https://example.org/x y/a#b.jpg",
            rendition: Rendition(width: 1),
            size: PixelSize(width: 1, height: 1)
        )
        #expect(template.bucket == "thumbs")
        let location = try S3Location(try #require(URL(string: path)))
        #expect(location.bucket == "thumbs" && location.key.hasSuffix("a.jpg"), "\(path)")
    }

    @Test(arguments: ["s3://t/{stem}", "s3://{host}/{stem}", "s3://thumbs", "s3://thumbs/", "s3://thumbs/../{stem}"])
    func aFaultyObjectIsRefused(_ output: String) {
        #expect(throws: JobError.self) { _ = try OutputTemplate(output) }
    }
}
