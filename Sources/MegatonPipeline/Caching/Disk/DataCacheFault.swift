internal import Foundation

/// A failed operation on a file.
struct DataCacheFault: Error {
    let operation: String
    let path: String
    /// `errno`; 0 if the file itself is at fault.
    let code: Int32
    let reason: String

    init(_ operation: String, _ path: String, code: Int32 = errno) {
        self.operation = operation
        self.path = path
        self.code = code
        reason = String(cString: strerror(code))
    }

    init(_ operation: String, _ path: String, reason: String) {
        self.operation = operation
        self.path = path
        code = 0
        self.reason = reason
    }

    /// Operation and reason without the path: the number of different values is bounded.
    var kind: String { "\(operation): \(reason)" }
    /// Whether the disk is full, or its owner's quota is used up.
    var isFull: Bool { code == ENOSPC || code == EDQUOT }
}
