package import Foundation
import Synchronization

/// Decides while a source arrives whether its first bytes are enough for some renditions: of a progressive JPEG that is
/// shrunk they are, after its first scans.
///
/// The rendering of these bytes is that of the whole file, because `RenderPlan.neededScans` cuts that at the same place.
package final class SufficientScans: Sendable {
    private enum State {
        /// The header has not arrived.
        case open
        /// The renditions need the whole source.
        case never
        case planned(RenderPlan)
    }

    private let renditions: [Rendition]
    private let engine: any RenderEngine
    private let limits: RenderLimits
    private let state = Mutex(State.open)

    package init(for renditions: [Rendition], _ engine: any RenderEngine, _ limits: RenderLimits) {
        self.renditions = renditions
        self.engine = engine
        self.limits = limits
    }

    /// - Parameter data: the source from its first byte on.
    package func areIn(_ data: Data) -> Bool {
        state.withLock { state in
            if case .open = state { state = plan(data) }
            if case .planned(let plan) = state { return plan.hasNeededScans(in: data) }
            return false
        }
    }

    private func plan(_ data: Data) -> State {
        guard data.count >= 3 else { return .open }
        guard data.starts(with: [0xFF, 0xD8, 0xFF]) else { return .never }
        let scans = JPEGScans(data)
        if scans.count == 0 { return .open }
        guard scans.isProgressive else { return .never }
        do {
            let plan = try RenderPlan(probing: data, .jpeg, renditions, engine, limits)
            return plan.passes.allSatisfy { plan.scanNeeds($0) != nil } ? .planned(plan) : .never
        } catch {
            // The render of the whole source reports it.
            return .never
        }
    }
}
