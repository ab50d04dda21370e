public import Foundation

/// A gate that is always open: for a pipeline that stands alone.
public struct OpenGate: OriginGating {
    public init() {}

    public func enter(_ url: URL) async throws(ImagePipeline.Error) -> OriginPass {
        OriginPass(host: url.host() ?? "", token: nil)
    }

    public func leave(_ pass: OriginPass, _ outcome: OriginOutcome) async {}
}
