import Foundation
import MegatonPipeline
import MegatonTestSupport
import NIOCore

/// One way for an origin to be bad, and what is to come of it with a worker's usual limits.
struct BadOrigin: Sendable {
    /// Of its jobs too.
    let name: String
    /// Jobs at the same time, each with a source of its own.
    var jobs = 1
    let answer: OriginServer.Answer
    /// It takes requests and does not answer.
    var isSilent = false
    /// What each of its jobs dies of.
    let code: ImagePipeline.Error.Code
    /// After how long at the latest.
    let limit: Duration
    /// Bytes of a stream that may go out before it is cut off; nil where they do not matter.
    var mostBytes: Int?

    /// Starts a server of this kind: a host of its own, as the gate goes by port.
    func start() async throws -> OriginServer {
        let server = try await OriginServer.start { _ in answer }
        if isSilent { server.hold() }
        return server
    }

    /// Paths of its sources are the ids of its jobs.
    var ids: [String] { (0..<jobs).map { "\(name)-\($0)" } }

    /// Whether it is known at once that it is bad.
    var isQuick: Bool { limit == Self.atOnce }

    /// Whether each of its jobs fills the memory that a fetch may take.
    var fillsMemory: Bool { (mostBytes ?? 0) > Self.bodyLimit }

    // MARK: - Limits

    /// What a fetch may hold, as is documented.
    static let bodyLimit = 64 * mebibyte
    private static let mebibyte = 1024 * 1024
    /// From the push to what is known at once: admission and claim, and a second for a machine that is busy.
    private static let atOnce: Duration = .seconds(2)
    /// Nine fetches of 64 MiB at the same time, through one process and two cores.
    private static let fullSpeed: Duration = .seconds(10)
    /// Slower than 1 KiB/s for 10 s.
    private static let tooSlow: Duration = .seconds(10) + atOnce
    /// 20 s in all.
    private static let tooLong: Duration = .seconds(20) + atOnce
    /// What may be on its way in the kernel, for either side.
    private static let inKernel = 64 * mebibyte

    // MARK: - Kinds

    /// A picture that is good. Where it stands at the beginning of what is bad, nothing but its length is wrong.
    static let image = TestImage.quarters(width: 64, height: 64)
    private static let fiveGigabytes = 5_000_000_000

    private static func flood(total: Int? = nil) -> OriginStream {
        OriginStream(piece: Data(count: 256 * 1024), total: total)
    }

    private static func drip(_ piece: String, everyMilliseconds interval: Int64, isHeader: Bool = false) -> OriginStream
    {
        OriginStream(piece: Data(piece.utf8), interval: .milliseconds(interval), isHeader: isHeader)
    }

    static let all: [BadOrigin] = [
        BadOrigin(
            name: "truncated",
            answer: .init(body: image, announcedLength: image.count + 1000),
            code: .incompleteBody,
            limit: atOnce
        ),
        // The announced part is all that counts, and no picture.
        BadOrigin(
            name: "cut",
            answer: .init(body: image, announcedLength: 4),
            code: .unsupportedFormat,
            limit: atOnce
        ),
        BadOrigin(
            name: "huge-announced",
            answer: .init(announcedLength: fiveGigabytes, stream: flood(total: fiveGigabytes)),
            code: .dataTooLarge,
            limit: atOnce,
            // Not by what came: by what it said.
            mostBytes: bodyLimit
        ),
        BadOrigin(
            name: "huge-chunked",
            answer: .init(body: image, stream: flood(total: fiveGigabytes)),
            code: .dataTooLarge,
            limit: fullSpeed,
            mostBytes: bodyLimit + inKernel
        ),
        BadOrigin(
            name: "endless",
            jobs: 8,
            answer: .init(body: image, stream: flood()),
            code: .dataTooLarge,
            limit: fullSpeed,
            mostBytes: bodyLimit + inKernel
        ),
        BadOrigin(
            name: "endless-header",
            answer: .init(
                stream: OriginStream(
                    piece: Data(String(repeating: "X-Filler: 1\r\n", count: 10_000).utf8),
                    isHeader: true
                )
            ),
            code: .headerTooLarge,
            limit: atOnce,
            mostBytes: bodyLimit
        ),
        BadOrigin(name: "silent", answer: .init(), isSilent: true, code: .tooSlow, limit: tooSlow),
        BadOrigin(
            name: "dripping-header",
            answer: .init(stream: drip("X-Drip: 1\r\n", everyMilliseconds: 100, isHeader: true)),
            code: .tooSlow,
            limit: tooSlow
        ),
        BadOrigin(
            name: "dripping-body",
            answer: .init(stream: drip("x", everyMilliseconds: 100)),
            code: .tooSlow,
            limit: tooSlow
        ),
        // 4 KiB/s: never slow enough for that limit.
        BadOrigin(
            name: "trickling-body",
            answer: .init(body: image, stream: drip(String(repeating: "x", count: 1024), everyMilliseconds: 250)),
            code: .timedOut,
            limit: tooLong
        ),
    ]
}
