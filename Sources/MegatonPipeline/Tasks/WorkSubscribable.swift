/// A node as its subscribers see it, without the type of its value.
protocol WorkSubscribable: AnyObject, Sendable {
    func leave(_ id: Int)
    func setPriority(_ priority: WorkPriority, revision: UInt64?, of id: Int)
    func wasCoalesced(_ id: Int) -> Bool
}
