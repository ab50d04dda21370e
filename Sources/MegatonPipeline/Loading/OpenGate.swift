public import Foundation

/// Grants every permit: for a pipeline without host limits.
public struct OpenGate: OriginGating {
    public init() {}

    public func enter(_ url: URL) async throws(ImagePipeline.Error) -> OriginPass {
        OriginPass(host: url.host() ?? "", token: nil)
    }

    public func leave(_ pass: OriginPass, _ outcome: OriginOutcome) async {}
}
