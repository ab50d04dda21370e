internal import Foundation

/// Limits of a load, with the error code for each.
enum LoadLimit {
    case headerSize
    case bodySize
    case connectTime
    case totalTime
    case speed

    var code: ImageError.Code {
        switch self {
        case .headerSize: .headerTooLarge
        case .bodySize: .dataTooLarge
        case .connectTime: .connectTimedOut
        case .totalTime: .timedOut
        case .speed: .tooSlow
        }
    }
}
