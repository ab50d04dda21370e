import Foundation
import MegatonPipeline
import MegatonTestSupport
import NIOCore

/// One way in which an origin misbehaves, and the expected outcome under a worker's default limits.
struct BadOrigin: Sendable {
    /// Name of the kind, and prefix of its jobs' ids.
    let name: String
    /// Number of concurrent jobs, each with its own source.
    var jobs = 1
    let answer: OriginServer.Answer
    /// Whether it accepts requests and never responds.
    var isSilent = false
    /// Error code with which each of its jobs fails.
    let code: ImagePipeline.Error.Code
    /// Time by which each of its jobs must have failed.
    let limit: Duration
    /// Upper limit for the bytes of a stream that are sent before it is cut off; nil if they do not matter.
    var mostBytes: Int?

    /// Starts a server of this kind, which is a host of its own, because rate limiting goes by port.
    func start() async throws -> OriginServer {
        let server = try await OriginServer.start { _ in answer }
        if isSilent { server.hold() }
        return server
    }

    /// Ids of its jobs, which are also the paths of their sources.
    var ids: [String] { (0..<jobs).map { "\(name)-\($0)" } }

    /// Whether the worker can detect the problem at once.
    var isQuick: Bool { limit == Self.atOnce }

    /// Whether each of its jobs uses all the memory that a fetch may take.
    var fillsMemory: Bool { (mostBytes ?? 0) > Self.bodyLimit }

    // MARK: - Limits

    /// Documented limit on a response body.
    static let bodyLimit = 64 * mebibyte
    private static let mebibyte = 1024 * 1024
    /// Time from the push to an immediate failure: admission and claim, and a second for a busy machine.
    private static let atOnce: Duration = .seconds(2)
    /// Nine fetches of 64 MiB at the same time, through one process and two cores.
    private static let fullSpeed: Duration = .seconds(10)
    /// Slower than 1 KiB/s for 10 s.
    private static let tooSlow: Duration = .seconds(10) + atOnce
    /// 20 s in all.
    private static let tooLong: Duration = .seconds(20) + atOnce
    /// Bytes that the kernel may buffer, for both sides together.
    private static let inKernel = 64 * mebibyte

    // MARK: - Kinds

    /// A valid image. A bad body that starts with it is wrong in its length only.
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
        // Only the announced bytes count, and they are not an image.
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
            // Refused by its announced length, before the body arrives.
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
        // 4 KiB/s: above the low-speed limit at all times.
        BadOrigin(
            name: "trickling-body",
            answer: .init(body: image, stream: drip(String(repeating: "x", count: 1024), everyMilliseconds: 250)),
            code: .timedOut,
            limit: tooLong
        ),
    ]
}
