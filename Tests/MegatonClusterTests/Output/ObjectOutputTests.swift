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
        struct Stored {
            var fields: [(String, String)]
            var size = 0
        }

        struct State {
            var requests: [String] = []
            /// Conditions of the writes so far.
            var conditions: [String] = []
            var objects: [String: Stored] = [:]
            /// Answers to writes, in the place of the usual ones.
            var failures: [OriginServer.Answer] = []
            /// Answers to the ends of uploads in parts, in the place of the usual ones.
            var endFailures: [OriginServer.Answer] = []
            /// Upload in parts that has begun.
            var upload: Stored?
            /// Whether the answer to the next object that is stored is lost.
            var losesAnswer = false
            /// An object that another worker stores right before the next write.
            var intruder: (path: String, object: Stored)?
            /// Whether the credential may not read.
            var isClosed = false
            var onPart: (@Sendable () -> Void)?
        }

        let state = Mutex(State())

        var requests: [String] { state.withLock { $0.requests } }
        var conditions: [String] { state.withLock { $0.conditions } }
        var writes: Int { requests.count { !$0.hasPrefix("HEAD") } }

        func fail(_ status: Int, _ code: String) {
            state.withLock { $0.failures.append(Self.error(status, code)) }
        }

        static func error(_ status: Int, _ code: String) -> OriginServer.Answer {
            .init(status: status, body: Data("<Error><Code>\(code)</Code></Error>".utf8))
        }

        /// An answer during which the connection ends.
        static let lost = OriginServer.Answer(body: Data("<".utf8), announcedLength: 100)

        private static func stored(_ request: OriginServer.Request) -> Stored {
            let names = ["content-type", "x-amz-meta-sha256", "x-amz-meta-megaton-version"]
            return Stored(
                fields: names.compactMap { name in request.headers[name].map { (name, $0) } },
                size: request.headers["content-length"].flatMap { Int($0) } ?? 0
            )
        }

        func put(_ path: String, type: String = "image/webp", tag: String = "\"0\"", version: String? = nil) {
            let object = Self.object(type: type, tag: tag, version: version)
            state.withLock { $0.objects[path] = object }
        }

        static func object(type: String, tag: String, version: String?) -> Stored {
            Stored(
                fields: [("Content-Type", type), ("ETag", tag)]
                    + (version.map { [("x-amz-meta-megaton-version", $0)] } ?? [])
            )
        }

        func answer(_ request: OriginServer.Request) -> OriginServer.Answer {
            state.withLock { state in
                let path = String(request.path.prefix { $0 != "?" })
                let query = String(request.path.dropFirst(path.count))
                state.requests.append("\(request.method) \(request.path)")
                if request.method == "HEAD" {
                    if state.isClosed { return .init(status: 403) }
                    guard let object = state.objects[path] else { return .init(status: 404) }
                    return .init(headers: object.fields, body: Data(count: object.size))
                }
                if query.hasPrefix("?partNumber") { state.onPart?() }
                if !state.failures.isEmpty { return state.failures.removeFirst() }
                if query == "?uploads=" {
                    state.upload = Self.stored(request)
                    return .init(body: Data("<UploadId>u/1</UploadId>".utf8))
                }
                if query.hasPrefix("?partNumber") {
                    state.upload?.size += Self.stored(request).size
                    return .init(headers: [("ETag", "\"e\"")])
                }
                if request.method == "DELETE" { return .init(status: 204) }
                if request.method == "POST" {
                    if !state.endFailures.isEmpty { return state.endFailures.removeFirst() }
                    if state.upload == nil { return Self.error(404, "NoSuchUpload") }
                }
                return store(request, at: path, &state)
            }
        }

        private func store(
            _ request: OriginServer.Request,
            at path: String,
            _ state: inout State
        ) -> OriginServer.Answer {
            if let intruder = state.intruder {
                state.objects[intruder.path] = intruder.object
                state.intruder = nil
            }
            let (absent, tag) = (request.headers["if-none-match"], request.headers["if-match"])
            state.conditions.append(absent ?? tag ?? "")
            let known = state.objects[path]?.fields.first { $0.0 == "ETag" }?.1
            if absent == "*" && known != nil || tag != nil && tag != known {
                return .init(status: 412, body: Data("<Error><Code>PreconditionFailed</Code></Error>".utf8))
            }
            let object = request.method == "POST" ? state.upload : nil
            let new = object ?? Self.stored(request)
            if object != nil { state.upload = nil }
            state.objects[path] = Stored(
                fields: new.fields + [("ETag", "\"\(state.requests.count)\"")],
                size: new.size
            )
            if state.losesAnswer {
                state.losesAnswer = false
                return Self.lost
            }
            return .init(body: Data("<CompleteMultipartUploadResult/>".utf8))
        }
    }

    private static func object(
        _ key: String,
        _ data: Data,
        in bucket: String = "thumbs",
        fetched: Double? = nil
    ) throws -> ObjectOutput.Object {
        ObjectOutput.Object(
            location: try S3Location(bucket: bucket, key: key),
            data: data,
            format: .webp,
            sha256: Checksum.sha256(data),
            version: fetched.map { OutputVersion(fetched: $0, rendition: "5a") }
        )
    }

    /// - Parameter attempts: maximum number of attempts of each request.
    private static func run(
        attempts: Int = 1,
        log: LogLines = LogLines(),
        _ body: (ObjectOutput, Store) async throws -> Void
    ) async throws {
        let store = Store()
        try await OriginServer.run(responding: { store.answer($0) }) { (origin) async throws in
            var configuration = DataLoader.Configuration()
            configuration.urlPolicy.schemes = ["s3"]
            configuration.s3 = S3Endpoint(url: origin.url(""))
            let buckets = [try OutputBucket("thumbs/a"), try OutputBucket("other")]
            var retries = RetryingDataLoader.Policy()
            (retries.attempts, retries.delay, retries.holdsBody) = (attempts, .milliseconds(1), true)
            let objects = S3Store(DataLoader(configuration), retries: retries)
            let output = ObjectOutput(
                store: objects,
                buckets: buckets,
                endpoint: configuration.s3.name,
                logger: log.logger()
            )
            try await body(output, store)
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
            store.put("/thumbs/a/text", type: "text/plain")
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
            #expect(store.conditions == [""])
        }
    }

    @Test func anOlderResultNeverReplacesANewerOne() async throws {
        try await Self.run { output, store in
            store.put("/thumbs/a/new", version: "2000.0 5a")
            store.put("/thumbs/a/other", tag: "\"7\"", version: "2000.0 other")
            let older = [
                try Self.object("a/new", Data("old".utf8), fetched: 1000),
                try Self.object("a/other", Data("old".utf8), fetched: 1000),
            ]
            let kept = try await output.write(older, replacing: .all, source: nil)
            #expect(kept == ["s3://thumbs/a/new"] && store.conditions == ["\"7\""])
            let newer = try Self.object("a/new", Data("new".utf8), fetched: 3000)
            #expect(try await output.write([newer], replacing: .images, source: nil).isEmpty)
            #expect(store.conditions.last == "\"0\"" && store.writes == 2)
            let versions = store.state.withLock { $0.objects["/thumbs/a/new"]?.fields.map(\.1) ?? [] }
            #expect(versions.contains("3000.0 5a"), "\(versions)")
        }
    }

    @Test(arguments: [("2000.0 5a", 0), ("500.0 5a", 1)])
    func anObjectThatAppearsMeanwhileIsJudgedAnew(_ version: String, _ written: Int) async throws {
        try await Self.run { output, store in
            let other = Store.object(type: "image/webp", tag: "\"x\"", version: version)
            store.state.withLock { $0.intruder = ("/thumbs/a/x", other) }
            let object = try Self.object("a/x", Data("x".utf8), fetched: 1000)
            let kept = try await output.write([object], replacing: .images, source: nil)
            #expect(kept == (written == 0 ? ["s3://thumbs/a/x"] : []))
            #expect(store.conditions == ["*"] + [String](repeating: "\"x\"", count: written))
        }
    }

    @Test func anObjectThatIsChangedAgainAndAgainIsLeftToALaterAttempt() async throws {
        try await Self.run { output, store in
            for _ in 0..<3 { store.fail(412, "PreconditionFailed") }
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await output.write([try Self.object("a/x", Data("x".utf8))], replacing: .images, source: nil)
            }
            #expect(error?.code == .outputFailed && error?.isRetryable == true && store.writes == 3)
        }
    }

    @Test func aBucketWithoutConditionsIsWrittenToWithoutThem() async throws {
        let log = LogLines()
        try await Self.run(log: log) { (output, store) async throws in
            store.fail(501, "NotImplemented")
            let objects = [try Self.object("a/1", Data("1".utf8)), try Self.object("a/2", Data("2".utf8))]
            try await output.write(objects, replacing: .images, source: nil)
            #expect(store.conditions == ["", ""] && store.writes == 3)
            let other = try Self.object("a/1", Data("1".utf8), in: "other")
            try await output.write([other], replacing: .images, source: nil)
            #expect(store.conditions == ["", "", "*"], "the store of the other bucket may know them")
        }
        #expect(log.warnings.count == 1, "\(log.all)")
        #expect(log.warnings.first?.contains("s3.bucket=thumbs s3.endpoint=http://127.0.0.1:") == true, "\(log.all)")
    }

    @Test func anObjectThatCannotBeReadIsNotReplaced() async throws {
        try await Self.run { output, store in
            store.state.withLock { $0.isClosed = true }
            let object = try Self.object("a/x", Data("x".utf8))
            try await output.write([object], replacing: .images, source: nil)
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await output.write([object], replacing: .images, source: nil)
            }
            #expect(error?.code == .outputFailed && error?.message.contains("needs s3:GetObject") == true)
            try await output.write([object], replacing: .all, source: nil)
            #expect(store.conditions == ["*", "*", ""])
        }
    }

    /// Fault: an object was replaced if it could not be looked up, and the store knew no conditional writes.
    @Test func anObjectThatCannotBeReadIsNotReplacedWithoutConditionsEither() async throws {
        try await Self.run { output, store in
            store.state.withLock { $0.isClosed = true }
            store.fail(501, "NotImplemented")
            for name in ["a/x", "a/y"] {
                let object = try Self.object(name, Data("x".utf8))
                let error = await #expect(throws: ImagePipeline.Error.self) {
                    try await output.write([object], replacing: .images, source: nil)
                }
                #expect(error?.code == .outputFailed && error?.message.contains("may exist") == true)
            }
            #expect(store.conditions.isEmpty)
            try await output.write([try Self.object("a/x", Data("x".utf8))], replacing: .all, source: nil)
            #expect(store.conditions == [""])
        }
    }

    /// Fault: with a credential that may only write, `--overwrite` replaced the source.
    @Test func aSourceThatCannotBeReadIsNotReplaced() async throws {
        try await Self.run { output, store in
            store.state.withLock { $0.isClosed = true }
            let object = try Self.object("a/x", Data("x".utf8))
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await output.write([object], replacing: .all, source: object.location)
            }
            #expect(error?.code == .outputExists && store.writes == 0, "\(store.requests)")
        }
    }

    @Test(arguments: ["a2/x", "x", "a"]) func otherKeysAreForbidden(_ key: String) async throws {
        try await Self.run { output, store in
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await output.write([try Self.object(key, Data())], replacing: .all, source: nil)
            }
            #expect(error?.code == .forbidden && error?.message.contains("outputBuckets") == true)
            #expect(store.requests.isEmpty)
        }
    }

    @Test(arguments: [
        (503, "SlowDown", true, "SlowDown"), (429, "TooManyRequests", true, "TooManyRequests"),
        (500, "InternalError", true, "InternalError"), (409, "ConditionalRequestConflict", true, "Conditional"),
        (403, "AccessDenied", false, "needs s3:PutObject."), (403, "InvalidAccessKeyId", false, "Check id and secret"),
        (400, "ExpiredToken", false, "Renew it"), (301, "PermanentRedirect", false, "Give it with --s3-region."),
        (404, "NoSuchBucket", false, "there is no bucket thumbs. Create it"),
    ])
    func anErrorOfTheStoreIsReported(
        _ status: Int,
        _ code: String,
        _ isRetryable: Bool,
        _ words: String
    ) async throws {
        try await Self.run { output, store in
            store.fail(status, code)
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await output.write([try Self.object("a/x", Data("x".utf8))], replacing: .all, source: nil)
            }
            #expect(error?.code == .outputFailed && error?.isRetryable == isRetryable, "\(String(describing: error))")
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

    private static let beginning = ["HEAD /thumbs/a/large", "POST /thumbs/a/large?uploads="]
    private static let end = "POST /thumbs/a/large?uploadId=u%2F1"

    private static func large(fetched: Double? = 1000) throws -> ObjectOutput.Object {
        try object("a/large", Data(count: S3Store.singleLimit + 1), fetched: fetched)
    }

    @Test func theBeginningAndTheEndOfAnUploadAreRepeated() async throws {
        try await Self.run(attempts: 3) { (output, store) async throws in
            store.fail(503, "SlowDown")
            // The second error comes with the status 200.
            let ends = [Store.error(500, "InternalError"), Store.error(200, "InternalError")]
            store.state.withLock { state in
                state.failures.append(Store.lost)
                state.endFailures = ends
            }
            try await output.write([try Self.large()], replacing: .images, source: nil)
            let requests = store.requests
            #expect(Array(requests.prefix(4)) == Self.beginning + [Self.beginning[1], Self.beginning[1]])
            #expect(Array(requests.suffix(3)) == [Self.end, Self.end, Self.end] && requests.count == 10, "\(requests)")
        }
    }

    @Test func anUploadIsRepeatedAsOftenAsItsParts() async throws {
        try await Self.run(attempts: 3) { (output, store) async throws in
            for _ in 0..<5 { store.fail(503, "SlowDown") }
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await output.write([try Self.large()], replacing: .images, source: nil)
            }
            #expect(error?.isRetryable == true && store.writes == 3, "\(store.requests)")
        }
    }

    /// The store has completed the upload, and so knows it no longer when the request is repeated.
    @Test func anUploadWhoseLastAnswerIsLostIsLookedUp() async throws {
        try await Self.run(attempts: 3) { (output, store) async throws in
            store.state.withLock { $0.losesAnswer = true }
            #expect(try await output.write([try Self.large()], replacing: .images, source: nil).isEmpty)
            #expect(Array(store.requests.suffix(3)) == [Self.end, Self.end, Self.beginning[0]], "\(store.requests)")
            #expect(store.conditions == ["*"] && !store.requests.contains { $0.hasPrefix("DELETE") })
        }
    }

    @Test(arguments: [false, true])
    func anUploadThatIsGoneIsLeftToALaterAttempt(_ hasOther: Bool) async throws {
        try await Self.run(attempts: 3) { (output, store) async throws in
            // Without a condition, a missing upload is not one that others have changed.
            let large = try Self.large(fetched: nil)
            if hasOther { store.put("/thumbs/a/large") }
            store.state.withLock { $0.endFailures = [Store.error(404, "NoSuchUpload")] }
            let error = await #expect(throws: ImagePipeline.Error.self) {
                try await output.write([large], replacing: .all, source: nil)
            }
            #expect(error?.isRetryable == true && error?.message.contains("NoSuchUpload") == true)
            #expect(store.requests.last?.hasPrefix("DELETE") == true, "\(store.requests)")
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

    @Test func thePartsOfACancelledUploadAreDeleted() async throws {
        try await Self.run { output, store in
            let large = try Self.object("a/large", Data(count: S3Store.singleLimit + 1))
            let (start, starter) = AsyncStream<Void>.makeStream()
            let task = Task {
                for await _ in start { break }
                try await output.write([large], replacing: .all, source: nil)
            }
            store.state.withLock { $0.onPart = { task.cancel() } }
            starter.yield()
            let error = await #expect(throws: ImagePipeline.Error.self) { try await task.value }
            #expect(error?.code == .cancelled)
            #expect(store.requests.last == "DELETE /thumbs/a/large?uploadId=u%2F1", "\(store.requests)")
        }
    }

    @Test func thePlaceholdersOfFilesAreThoseOfObjects() throws {
        let template = try OutputTemplate("s3://thumbs/{label.set}/{id}-{width}.{ext}")
        let path = template.path(
            source: "https://example.org/a.jpg",
            rendition: Rendition(width: 1),
            size: PixelSize(width: 7, height: 1),
            id: "j 1",
            labels: ["set": .text("../x")]
        )
        #expect(path == "s3://thumbs/.._x/j%201-7.jpg")
        #expect(template.problem(with: nil)?.contains("label \"set\"") == true)
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
