internal import Foundation

/// Limits of a load, and the code of the error when one is reached.
enum LoadLimit {
    case headerSize
    case bodySize
    case connectTime
    case totalTime
    case speed

    /// The one place to give a limit a code of its own: `header_too_large`, `connect_timed_out` and `too_slow` are
    /// `headerSize`, `connectTime` and `speed`.
    var code: ImagePipeline.Error.Code {
        switch self {
        case .headerSize: .dataTooLarge
        case .bodySize: .dataTooLarge
        case .connectTime: .timedOut
        case .totalTime: .timedOut
        case .speed: .timedOut
        }
    }
}
