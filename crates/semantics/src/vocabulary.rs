//! The words of the table of concepts: what events mean, and what their fields are.

crate::named! {
    /// Meaning of an event for a machine.
    pub Concept {
        /// A CPU turns from one thread to another.
        Switch = "switch",
        /// A thread becomes runnable.
        Wake = "wake",
        /// A thread is queued on another CPU.
        Migrate = "migrate",
        /// A thread makes another one.
        Fork = "fork",
        /// A thread becomes another program.
        Exec = "exec",
        /// A thread ends.
        Exit = "exit",
        /// The kernel forgets a thread.
        Free = "free",
        /// A parent waits for a child.
        Reap = "reap",
        /// The priority of a thread changes.
        Prio = "prio",
        /// The handler of an interrupt begins.
        IrqEntry = "irq_entry",
        /// The handler of an interrupt ends.
        IrqExit = "irq_exit",
        /// A soft interrupt is asked for.
        SoftRaise = "soft_raise",
        /// A soft interrupt begins.
        SoftEntry = "soft_entry",
        /// A soft interrupt ends.
        SoftExit = "soft_exit",
        /// A timer of the kernel is set.
        TimerStart = "timer_start",
        /// The function of a timer begins.
        TimerEntry = "timer_entry",
        /// The function of a timer ends.
        TimerExit = "timer_exit",
        /// A timer of a process has expired.
        TimerExpired = "timer_expired",
        /// A timer of a process is set.
        TimerSet = "timer_set",
        /// A function is queued for a worker of the kernel.
        WorkQueue = "work_queue",
        /// A worker begins a function.
        WorkStart = "work_start",
        /// A worker ends a function.
        WorkEnd = "work_end",
        /// An interrupt between CPUs begins.
        IpiEntry = "ipi_entry",
        /// An interrupt between CPUs ends.
        IpiExit = "ipi_exit",
        /// A system call begins.
        SysEntry = "sys_entry",
        /// A system call ends.
        SysExit = "sys_exit",
        /// A trap begins.
        TrapEntry = "trap_entry",
        /// A trap ends.
        TrapExit = "trap_exit",
        /// A page fault, reported as one instant.
        Fault = "fault",
        /// A state dump lists a thread.
        DumpTask = "dump_task",
        /// A state dump lists an open file.
        DumpFile = "dump_file",
        /// A state dump lists a disk.
        DumpDisk = "dump_disk",
        /// A state dump lists an interrupt.
        DumpIrq = "dump_irq",
        /// A state dump lists a network device.
        DumpNet = "dump_net",
        /// A state dump ends.
        DumpEnd = "dump_end",
        /// A request is queued for a disk.
        RqInsert = "rq_insert",
        /// A request is handed to the driver of a disk.
        RqIssue = "rq_issue",
        /// A disk has done a request.
        RqComplete = "rq_complete",
        /// A thread begins to wait for a lock of the kernel.
        ContendBegin = "contend_begin",
        /// A thread has got a lock of the kernel, or gives up.
        ContendEnd = "contend_end",
        /// A thread tries to get a lock of the kernel, as its lock validator (lockdep) sees it, or has just got it by trying.
        LockAcquire = "lock_acquire",
        /// It has to wait for that lock.
        LockContended = "lock_contended",
        /// It has got that lock.
        LockAcquired = "lock_acquired",
        /// A thread releases a lock of the kernel, or gives up to wait for it.
        LockRelease = "lock_release",
        /// Pages are allocated.
        PageAlloc = "page_alloc",
        /// Pages are freed.
        PageFree = "page_free",
        /// An object of the kernel is allocated.
        SlabAlloc = "slab_alloc",
        /// An object of the kernel is freed.
        SlabFree = "slab_free",
        /// A program allocates a block of memory.
        HeapAlloc = "heap_alloc",
        /// A program changes the size of a block, which may move.
        HeapRealloc = "heap_realloc",
        /// A program frees a block.
        HeapFree = "heap_free",
        /// A ROS 2 program makes a node.
        Ros2Node = "ros2_node",
        /// It makes a publisher.
        Ros2Publisher = "ros2_publisher",
        /// Its middleware makes what writes messages of a topic.
        Ros2Writer = "ros2_writer",
        /// It makes a subscription.
        Ros2Subscription = "ros2_subscription",
        /// It makes a service.
        Ros2Service = "ros2_service",
        /// It makes a timer.
        Ros2Timer = "ros2_timer",
        /// It ties a timer to a node.
        Ros2TimerNode = "ros2_timer_node",
        /// It says that an object, such as a callback, is a part of another one.
        Ros2Part = "ros2_part",
        /// It says which function a callback is.
        Ros2Symbol = "ros2_symbol",
        /// A callback begins.
        Ros2Start = "ros2_start",
        /// A callback ends.
        Ros2End = "ros2_end",
        /// A message is published.
        Ros2Publish = "ros2_publish",
        /// The middleware gives a published message its time stamp.
        Ros2Sent = "ros2_sent",
        /// The middleware hands over a message.
        Ros2Take = "ros2_take",
        /// A message is put into a buffer inside of the process.
        Ros2Enqueue = "ros2_enqueue",
        /// A message is taken out of such a buffer.
        Ros2Dequeue = "ros2_dequeue",
        /// A packet comes in.
        NetIn = "net_in",
        /// A packet goes out.
        NetOut = "net_out",
        /// A segment of a connection is handed to the network.
        SegmentOut = "segment_out",
        /// A segment of a connection has arrived.
        SegmentIn = "segment_in",
        /// A signal is sent.
        SignalSend = "signal_send",
        /// A signal is delivered.
        SignalTake = "signal_take",
        /// An idle CPU enters or leaves a C-state.
        Idle = "idle",
        /// The frequency of a CPU changes.
        Frequency = "frequency",
        /// The machine is suspended, or goes on.
        Suspend = "suspend",
        /// A thread that runs a CPU of a virtual machine enters it.
        VmEntry = "vm_entry",
        /// The CPU of a virtual machine is left for the host.
        VmExit = "vm_exit",
        /// A thread moves to a control group.
        CgroupAttach = "cgroup_attach",
        /// A state dump, or a context, says in which namespaces a thread is.
        Namespace = "namespace",
        /// A function of a program is entered.
        CallEntry = "call_entry",
        /// A function of a program is entered, and its arguments are recorded.
        CallValues = "call_values",
        /// A function of a program is left.
        CallExit = "call_exit",
        /// A program loads a library.
        Load = "load",
        /// A program unloads a library.
        Unload = "unload",
        /// A context names the thread that runs.
        Running = "running",
    }
}

crate::named! {
    /// A field of a concept.
    pub Field {
        /// The thread that the CPU leaves.
        Prev = "prev",
        /// The thread that the CPU turns to.
        Next = "next",
        /// State of the thread that the CPU leaves, in the kernel's numbers; of an idle CPU, its C-state.
        State = "state",
        /// Priority.
        Prio = "prio",
        /// Name of the thread that the CPU leaves.
        PrevComm = "prev_comm",
        /// Name of the thread that the CPU turns to.
        NextComm = "next_comm",
        /// The thread that the event is about.
        Tid = "tid",
        /// Its process.
        Pid = "pid",
        /// The parent of its process; of a fork, the parent's process.
        Ppid = "ppid",
        /// Its name.
        Comm = "comm",
        /// A CPU.
        Cpu = "cpu",
        /// The CPU on which the thread was before, or went to sleep.
        From = "from",
        /// Bits that ftrace stores with an event: 0x08 or 0x40 in a hard interrupt, 0x10 in a soft one.
        Context = "context",
        /// The thread that makes another one.
        Parent = "parent",
        /// The thread that is made.
        Child = "child",
        /// A name: of a program, an interrupt, a system call, a file, a device.
        Name = "name",
        /// A number: of an interrupt, a trap, a system call.
        Nr = "nr",
        /// The kind of the machine, which gives system calls their numbers.
        Machine = "machine",
        /// A result.
        Ret = "ret",
        /// File descriptor of a system call.
        Fd = "fd",
        /// Address of the table of files of a process.
        Table = "table",
        /// Second file descriptor: that which is written to.
        Out = "out",
        /// File descriptor that a call asks for.
        New = "new",
        /// Path of a file.
        Path = "path",
        /// Address of a lock.
        Uaddr = "uaddr",
        /// Operation on a lock or a file descriptor; of a lock of the kernel, its kind, or how it is taken.
        Op = "op",
        /// Address of a peer, as bytes.
        Address = "address",
        /// Port of a peer.
        Port = "port",
        /// Kind of a thread: 1 is one of the kernel.
        Type = "type",
        /// Mode of a thread.
        Mode = "mode",
        /// Status of a thread.
        Status = "status",
        /// Number of a thread in its namespace.
        Vtid = "vtid",
        /// Number of a process in its namespace.
        Vpid = "vpid",
        /// Number of a disk, or name of a network device.
        Dev = "dev",
        /// First sector of a request.
        Sector = "sector",
        /// Sectors of a request.
        NrSector = "nr_sector",
        /// Kind of a request.
        Rwbs = "rwbs",
        /// Two to this power pages.
        Order = "order",
        /// A page.
        Page = "page",
        /// A pointer: to an object, a timer, a work.
        Ptr = "ptr",
        /// A function of the kernel.
        Function = "function",
        /// When a timer expires.
        Expires = "expires",
        /// The time by the clock of a timer.
        Now = "now",
        /// Bytes that an object takes.
        Bytes = "bytes",
        /// Number of elements, each of which takes that many bytes.
        Count = "count",
        /// The pointer to the object that another one belongs to.
        Owner = "owner",
        /// The handle that the middleware of ROS 2 has for a publisher or a subscription.
        Rmw = "rmw",
        /// Time stamp of a message, which all who take it see.
        Stamp = "stamp",
        /// Period of a timer in ns.
        Period = "period",
        /// Did the message stay inside of the process?
        Intra = "intra",
        /// The pointer to a block before its size changed.
        Old = "old",
        /// Place of a call: in the kernel, or in a program.
        Site = "site",
        /// A packet of the network.
        Skb = "skb",
        /// Length in bytes.
        Len = "len",
        /// Number of the first byte of a segment.
        Seq = "seq",
        /// Number of the next byte that the sender of a segment expects.
        AckSeq = "ack_seq",
        /// Flags of a segment.
        Flags = "flags",
        /// Number of a signal.
        Sig = "sig",
        /// Frequency.
        Khz = "khz",
        /// Address of a function.
        Addr = "addr",
        /// Number of calls that a call stands in.
        Depth = "depth",
        /// Arguments of a call.
        Args = "args",
        /// Address where a library begins.
        Baddr = "baddr",
        /// Which of several.
        Which = "which",
        /// The part of suspending a machine that begins or ends.
        Action = "action",
        /// Does it begin?
        Start = "start",
        /// Number of the CPU of a virtual machine.
        Vcpu = "vcpu",
        /// Why something was left: a number of the hardware, or a name.
        Reason = "reason",
        /// Number of a namespace of control groups.
        CgroupNs = "cgroup_ns",
        /// Number of a namespace of processes.
        PidNs = "pid_ns",
        /// The kind of virtualisation whose numbers these are: 1 is VMX, 2 is SVM.
        Isa = "isa",
    }
}
