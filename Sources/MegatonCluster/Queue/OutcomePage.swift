package import Foundation

/// A part of a batch's ledger, as Redis returns it.
package struct OutcomePage: Sendable, Equatable {
    /// How the outcomes of the page follow those that the reader has.
    package enum State: Int, Sendable {
        /// They are the next ones.
        case continues = 0
        /// Redis has returned to an earlier state: the reader may have some of them, and some that it has will come
        /// again with other numbers.
        case wentBack = 1
        /// Some between were deleted before a reader had them.
        case deleted = 2
    }

    /// Number of bytes at which a page ends, unless its reader wants less.
    package static let usualBytes = 1024 * 1024

    package let state: State
    /// Number before that of the first outcome here; the first outcome of a batch has the number 1.
    package let start: Int
    /// The outcomes as JSON.
    package let lines: [Data]
}
