import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

/// A failure caused by a limit is reused only for requests whose limits are no higher.
@Suite struct AllowanceTests {
    typealias Error = ImagePipeline.Error

    /// Whether a failure met under `one`, encoded and decoded as another process would, answers a request under `two`.
    private func answers(
        _ code: Error.Code,
        met one: ImagePipeline.Configuration,
        _ two: ImagePipeline.Configuration
    ) throws -> Bool {
        let data = try JSONEncoder().encode(Error(code, "x").met(under: one))
        return try JSONDecoder().decode(Error.self, from: data).matches(request: [:], under: two)
    }

    private func configuration(
        _ change: (inout DataLoader.Configuration, inout ImagePipeline.Configuration) -> Void
    ) -> ImagePipeline.Configuration {
        var (loader, wide) = (DataLoader.Configuration(), ImagePipeline.Configuration())
        change(&loader, &wide)
        wide.dataLoader = RetryingDataLoader(DataLoader(loader))
        return wide
    }

    @Test func aRequestThatAllowsMoreIsNotAnswered() throws {
        let usual = configuration { _, _ in }
        let wider: [(Error.Code, ImagePipeline.Configuration)] = [
            (.unsupportedFormat, configuration { $1.types.insert(.tiff) }),
            (.timedOut, configuration { loader, _ in loader.timeout = .seconds(21) }),
            (.connectTimedOut, configuration { loader, _ in loader.connectTimeout = .seconds(6) }),
            (.tooSlow, configuration { loader, _ in loader.lowSpeedTime = .seconds(11) }),
            (.tooSlow, configuration { loader, _ in loader.lowSpeedLimit = 1023 }),
            (.tooManyRedirects, configuration { loader, _ in loader.maximumRedirects = 6 }),
            (.dataTooLarge, configuration { loader, _ in loader.maximumBodySize += 1 }),
            (.dataTooLarge, configuration { $1.maximumDataSize += 1 }),
            (.imageTooLarge, configuration { $1.renderLimits.pixels += 1 }),
            (.sideTooLong, configuration { $1.renderLimits.side += 1 }),
            (.tooManyBands, configuration { $1.renderLimits.bands += 1 }),
            (.tooManyFrames, configuration { $1.renderLimits.frames += 1 }),
            (.renderTimedOut, configuration { $1.renderLimits.time = .seconds(31) }),
            (.tls, configuration { loader, _ in loader.caFile = "/authorities.pem" }),
        ]
        for (code, wide) in wider {
            #expect(try !answers(code, met: usual, wide), "\(code)")
            #expect(try answers(code, met: wide, usual), "\(code)")
            #expect(try answers(code, met: usual, usual), "\(code)")
            #expect(try answers(.notFound, met: usual, wide), "a limit does not decide whether a file exists")
        }
    }

    @Test func aCredentialMayOpenWhatWasClosed() throws {
        let json = #"{"credentials": [{"sources": ["example.com"], "bearer": "secret"}]}"#
        let credentials = try Credentials(json: Data(json.utf8))
        let (none, some) = (configuration { _, _ in }, configuration { loader, _ in loader.credentials = credentials })
        for code in [Error.Code.accessDenied, .notFound, .httpStatus] {
            #expect(try !answers(code, met: none, some))
            #expect(try answers(code, met: some, none))
        }
    }

    /// Failures written by a version that did not record its limits, and by one with limits unknown to this version.
    @Test func failuresOfOtherVersionsAreAnswers() throws {
        let old = #"{"at":1,"token":2,"kind":"k","code":"timed_out","message":"x","retryable":true}"#
        let limits = #""allowance":{"limits":{"timeout":1e3,"other":1},"types":["a"]},"#
        let new = old.replacingOccurrences(of: #""code""#, with: limits + #""code""#)
        for json in [old, new] {
            let error = try JSONDecoder().decode(Error.self, from: Data(json.utf8))
            #expect(error.code == .timedOut && error.matches(request: [:], under: configuration { _, _ in }))
        }
    }

    @Test func aRetryAfterIsKeptWhateverIsAllowed() {
        var error = Error(.dataTooLarge, "x").met(under: configuration { _, _ in })
        let wide = configuration { $1.maximumDataSize += 1 }
        #expect(!error.matches(request: [:], under: wide))
        error.requestedDelay = 5
        #expect(error.matches(request: [:], under: wide))
    }
}
